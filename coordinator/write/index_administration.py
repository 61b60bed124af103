"""Creates, configures, renames, copies, restores and deletes indexes, one change after the other.

A new configuration is prepared on all shards while the old one keeps serving, then made durable in
the catalog, then activated on all shards. Writes to the index wait meanwhile. A crash before the
catalog is on disk leaves the old configuration everywhere; a crash after it, the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple, TypeVar

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.errors import Unavailable
from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from common.process.cooperative_scheduler import run_to_completion
from common.process.logs import Log
from common.protocol.messages import IndexStatisticsRequest
from common.protocol.methods import INDEX_STATISTICS
from common.value_kinds_and_facet_keys import ValueKind
from coordinator.catalog.catalog import Catalog, Index
from coordinator.catalog.catalog_state import CatalogState, RestoredIndex
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import gather
from coordinator.parameters.curation_rule_evaluation import compile_rules
from coordinator.write.configuration_patch_and_diff import (
    changes,
    merged,
    removals,
    with_empty_objects,
)
from coordinator.write.deleted_index_checks import check_still_there, no_index, without
from coordinator.write.detached_tasks import DetachedTasks
from coordinator.write.field_references import (
    FieldReference,
    field_references,
    unknown_fields,
)
from coordinator.write.index_restorer import IndexRestorer
from coordinator.write.new_index_checks import (
    check_free,
    check_no_alias,
    check_num_indexes,
)
from coordinator.write.write_ordering import DocumentOf, WriteLog

T = TypeVar("T")

RELEASE_PAUSE_SECONDS: Final = 1.0
"""After the disk has refused to forget the sources of restored indexes."""

_log = Log("ingest")


class ConfigurationPlan(NamedTuple):
    """The effects of a configuration change."""

    document: dict[str, Any]
    """The complete configuration, as stored."""
    warnings: list[str]
    changes: list[dict[str, Any]]
    """Differences by path; see `coordinator.write.configuration_patch_and_diff`."""


class _CheckedDocument(NamedTuple):
    """A complete new configuration without mistakes in itself."""

    document: dict[str, Any]
    warnings: list[str]
    references: list[FieldReference]
    """Where it names fields; whether items have them only the shards know."""


class IndexAdministration:
    """All changes of indexes.

    Args:
        cluster: the shards.
        catalog: the indexes.
        limits: in force.
        log: decides the order of all changes.
    """

    def __init__(self, cluster: Cluster, catalog: Catalog, limits: Limits, log: WriteLog) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._limits = limits
        self._log = log
        self._configuring = asyncio.Lock()
        self._tasks = DetachedTasks()
        self._restorer = IndexRestorer(cluster, catalog, limits, log)
        self._is_releasing = False
        if catalog.is_ours:
            cluster.on_state(lambda shard: self._look_for_sources())

    async def configure(
        self,
        name: str,
        document: dict[str, Any],
        deadline: Deadline | None = None,
        *,
        is_patch: bool = False,
    ) -> tuple[Index, ConfigurationPlan]:
        """Create an index, or change the configuration of an existing one: on all shards or none.

        Args:
            name: of the index (checked by the caller).
            document: as posted.
            deadline: how long to wait; past it, the change continues in the background.
            is_patch: whether to merge the document into the current configuration (null removes);
                it is merged once no other change is in progress.

        Returns:
            The index as it is now, and what changed.

        Raises:
            InvalidRequest: `invalid_configuration`; names each wrong path.
            Unavailable: a shard is down; nothing was changed.
        """
        self._plan(name, document, is_patch)  # invalid documents fail without queueing
        configured: tuple[Index, ConfigurationPlan] = await self._tasks.wait_for(
            self._configure(name, document, is_patch), deadline
        )
        return configured

    async def create(
        self, name: str, document: dict[str, Any], deadline: Deadline | None = None
    ) -> None:
        """Create an index; one that exists by the time of the change stays as it is.

        Args:
            name: of the index (checked by the caller).
            document: its configuration.
            deadline: as `configure`.

        Raises:
            As `configure`.
        """

        async def run() -> None:
            async with self._configuring:
                if name in self._catalog.indexes or name in self._catalog.aliases:
                    return

                def document_of(before: dict[str, Any]) -> dict[str, Any]:
                    if self._is_stored(name):
                        return before  # another host was faster
                    check_num_indexes(self._catalog.state, self._limits, 1)
                    return self._checked_document({}, document, is_patch=False).document

                await self._log.put_index(name, document_of)
                _log.info("created", index=name, number=self._catalog.index(name).number)

        await self._tasks.wait_for(run(), deadline)

    async def reconfigure(
        self, name: str, change: DocumentOf, deadline: Deadline | None = None
    ) -> Index:
        """Change the configuration of an existing index, given the one at the time of the change.

        Args:
            name: of the index.
            change: returns the new configuration, given the current one.
            deadline: as `configure`.

        Raises:
            NotFound: there is no such index any more.
            As `configure`, and what `change` raises.
        """

        async def run() -> Index:
            async with self._configuring:
                if name not in self._catalog.indexes:
                    raise no_index(name)

                def document_of(before: dict[str, Any]) -> dict[str, Any]:
                    if not self._is_stored(name):
                        raise no_index(name)  # another host has deleted it
                    return self._checked_document(before, change(before), is_patch=False).document

                await self._log.put_index(name, document_of)
                index = self._catalog.index(name)
                _log.info("configured", index=name, number=index.number, revision=index.revision)
                return index

        index: Index = await self._tasks.wait_for(run(), deadline)
        return index

    async def preview(
        self, name: str, document: dict[str, Any], *, is_patch: bool = False
    ) -> ConfigurationPlan:
        """Return what `configure` would do now; raises the errors that it would."""
        plan, checked = self._plan(name, document, is_patch)
        warnings = await self._unknown_fields(name, checked.references)
        return plan._replace(warnings=[*plan.warnings, *warnings])

    def _plan(
        self, name: str, document: dict[str, Any], is_patch: bool
    ) -> tuple[ConfigurationPlan, _CheckedDocument]:
        """Return what `configure` would do, except for what depends on the items."""
        check_no_alias(self._catalog.aliases, name)
        current = self._catalog.indexes.get(name)
        before = {} if current is None else current.document
        checked = self._checked_document(before, document, is_patch)
        after, warnings = checked.document, checked.warnings
        if not is_patch:
            warnings = [*warnings, *removals(before, after)]
        return ConfigurationPlan(after, warnings, changes(before, after)), checked

    def _checked_document(
        self, before: dict[str, Any], document: dict[str, Any], is_patch: bool
    ) -> _CheckedDocument:
        """Return the complete new configuration, and warnings; raise if it is invalid."""
        after = document
        if isinstance(document, dict):
            given = with_empty_objects(document)
            after = merged(before, given) if is_patch else given
        configuration, warnings = parse_configuration(after, self._limits)
        rules = run_to_completion(
            compile_rules(
                configuration.rules,
                configuration,
                Analyzer(),
                self._limits,
                "invalid_configuration",
            )
        )
        references = field_references(configuration, after, rules)
        return _CheckedDocument(after, warnings, references)

    async def _unknown_fields(self, name: str, references: list[FieldReference]) -> list[str]:
        """Return warnings about fields that a new configuration names and no item has."""
        index = self._catalog.indexes.get(name)
        if index is None or not references:
            return []
        try:
            parts = await gather(
                self._cluster,
                INDEX_STATISTICS,
                IndexStatisticsRequest(index.number),
                Deadline.after_ms(self._limits.request_timeout_ms),
            )
        except Unavailable as error:
            return [f"it was not checked that items have the fields: {error.message}"]
        if not any(part.num_docs for part in parts):
            return []
        fields: dict[str, set[ValueKind]] = {}
        for part in parts:
            for field in part.fields:
                kinds = (ValueKind[name.upper()] for name in field["kinds"])
                fields.setdefault(field["path"], set()).update(kinds)
        return unknown_fields(references, fields)

    async def delete_index(self, name: str, deadline: Deadline | None = None) -> None:
        """Delete an index and its data.

        Raises:
            NotFound: it does not exist.
        """
        await self._tasks.wait_for(self._delete_index(name), deadline)

    async def _configure(
        self, name: str, document: dict[str, Any], is_patch: bool
    ) -> tuple[Index, ConfigurationPlan]:
        """Check the document once no other change is in progress, then put it in force."""
        async with self._configuring:
            plan = await self.preview(name, document, is_patch=is_patch)

            def document_of(before: dict[str, Any]) -> dict[str, Any]:
                if not self._is_stored(name):
                    check_num_indexes(self._catalog.state, self._limits, 1)
                return self._checked_document(before, document, is_patch).document

            await self._log.put_index(name, document_of)
            index = self._catalog.index(name)
            _log.info("configured", index=name, number=index.number, revision=index.revision)
            return index, plan

    def _is_stored(self, name: str) -> bool:
        """Return whether there is an index of a name, as of the change that is being made."""
        return any(one.name == name for one in self._catalog.state.indexes)

    async def _delete_index(self, name: str) -> None:
        """Delete it once no other change is in progress."""
        async with self._configuring:
            index = self._catalog.indexes.get(name)
            if index is None:  # its name may be an alias by now
                raise no_index(name)
            await self._log.drop_index(index, lambda state: without(state, index))
            _log.info("deleted", index=index.name, number=index.number)

    async def rename(
        self, name: str, new_name: str, *, keeps_alias: bool, deadline: Deadline
    ) -> None:
        """Give an index another name; requests in progress continue, including writes.

        Args:
            name: of the index.
            new_name: a valid name.
            keeps_alias: whether the former name becomes an alias.
            deadline: how long to wait.

        Raises:
            NotFound: there is no such index.
            Conflict: `index_exists`.
        """
        await self._tasks.wait_for(self._rename(name, new_name, keeps_alias), deadline)

    async def _rename(self, name: str, new_name: str, keeps_alias: bool) -> None:
        async with self._configuring:
            index = self._catalog.indexes.get(name)
            if index is None:
                raise no_index(name)
            await self._rename_now(index, new_name, keeps_alias=keeps_alias)

    async def _rename_now(self, index: Index, new_name: str, *, keeps_alias: bool) -> None:
        """Rename an index while nothing else changes indexes."""

        def change(state: CatalogState) -> CatalogState:
            check_still_there(state, index)
            check_free(state, new_name)
            return state.renamed(index.name, new_name, keeps_alias=keeps_alias)

        await self._catalog.change(change, is_active=False)
        self._catalog.activate()
        await self._cluster.push_catalog()
        _log.info("renamed", index=new_name, former=index.name, number=index.number)

    async def copy(
        self,
        name: str,
        new_name: str,
        make_source: Callable[[Index], AbstractAsyncContextManager[RestoredIndex]],
        deadline: Deadline,
        *,
        replaces: bool = False,
    ) -> None:
        """Create an index with the configuration and the items of another one.

        Args:
            name: of the index to copy.
            new_name: a valid name.
            make_source: makes the snapshot that the copy is made of.
            deadline: how long to wait; past it, the work continues in the background.
            replaces: whether the copy takes the name from an index that has it, which is deleted
                at the moment when the copy is complete.

        Raises:
            As `restore`.
            NotFound: there is no such index.
        """
        self._log.check_can_restore()

        async def run() -> None:
            async with self._configuring:
                index = self._catalog.indexes.get(name)
                if index is None:
                    raise no_index(name)
                former = self._catalog.indexes.get(new_name) if replaces else None
                if former is None:
                    check_free(self._catalog.state, new_name)
                    check_num_indexes(self._catalog.state, self._limits, 1)
                async with make_source(index) as source:
                    if former is None:
                        await self._restorer.restore([source])
                    else:
                        await self._restorer.restore_over(former, source)
                self._look_for_sources()

        await self._tasks.wait_for(run(), deadline)

    async def move(self, name: str, new_name: str, deadline: Deadline) -> None:
        """Give an index the name of another one, which is deleted at the same moment.

        Requests see either of them under the name, and nothing in between. Aliases of both lead to
        the index that is moved.

        Args:
            name: of the index.
            new_name: a valid name, of an index or of nothing.
            deadline: how long to wait.

        Raises:
            NotFound: there is no such index.
            Conflict: `index_exists`: the new name is an alias.
        """

        async def run() -> None:
            async with self._configuring:
                await self._replace(name, new_name)

        await self._tasks.wait_for(run(), deadline)

    async def _replace(self, name: str, new_name: str) -> None:
        """Move an index while nothing else changes indexes."""
        index, former = self._catalog.indexes.get(name), self._catalog.indexes.get(new_name)
        if index is None:
            raise no_index(name)
        if former is None:
            await self._rename_now(index, new_name, keeps_alias=False)
            return
        await self._log.drop_index(former, lambda state: without(state, former, index))
        _log.info("moved", index=new_name, former=name, number=index.number)

    async def restore(self, wanted: Sequence[RestoredIndex], deadline: Deadline) -> None:
        """Create indexes from a snapshot: all of them on all shards, or none.

        Args:
            wanted: with valid names.
            deadline: how long to wait; past it, the work continues in the background.

        Raises:
            Conflict: `index_exists`.
            InvalidRequest: `too_many_indexes`.
            Unavailable: a shard is down.
            StorageFull: no room.
            InternalError: `snapshot_damaged`. In any case, nothing was changed.
        """
        self._log.check_can_restore()
        await self._tasks.wait_for(self._restore(wanted), deadline)

    async def _restore(self, wanted: Sequence[RestoredIndex]) -> None:
        async with self._configuring:
            await self._restorer.restore(wanted)
        self._look_for_sources()

    def _look_for_sources(self) -> None:
        """Release remaining sources once the last shard is back, and the disk has room."""
        if self._restorer.can_release_sources() and not self._is_releasing:
            self._is_releasing = True
            self._tasks.start(self._release_sources())

    async def _release_sources(self) -> None:
        try:
            while True:
                async with self._configuring:
                    await self._restorer.release_sources()
                if not self._restorer.can_release_sources():
                    break
                await asyncio.sleep(RELEASE_PAUSE_SECONDS)
        finally:
            self._is_releasing = False

    async def while_unchanged(
        self, work: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline
    ) -> T:
        """Run `work` while no index is created, configured or deleted; writes continue."""

        async def run() -> T:
            async with self._configuring, self._log.holding_indexes():
                return await work()

        result: T = await self._tasks.wait_for(run(), deadline)
        return result
