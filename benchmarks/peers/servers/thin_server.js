// The thinnest HTTP server in front of a JavaScript library, for comparison only.
//   node thin_server.js itemsjs|orama ITEMS PORT NODE_MODULES
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const readline = require('node:readline');

const [, , engineName, itemsFile, port, modules] = process.argv;
const FACETS = ['brand', 'category', 'country', 'tags'];
const TOP = 10;
const BATCH_ITEMS = 5000;

const load = name => require(path.join(modules, name));

async function readItems() {
  const lines = readline.createInterface({ input: fs.createReadStream(itemsFile) });
  const items = [];
  for await (const line of lines) items.push(JSON.parse(line));
  return items;
}

const buckets = facet => facet.buckets.map(bucket => [bucket.key, bucket.doc_count]);

async function itemsjs() {
  const items = await readItems();
  const aggregations = Object.fromEntries(
    FACETS.map(name => [name, { size: TOP, conjunction: name === 'tags' }]));
  const engine = load('itemsjs')(items, {
    searchableFields: ['title', 'description'],
    aggregations,
    sortings: { price: { field: 'price', order: 'desc' } },
    isExactSearch: true,
    removeStopWordFilter: true,
  });
  return {
    item: number => items[number - 1],
    search: ({ text, filters, facets, sort, page, perPage }) => {
      const found = engine.search({ query: text, filters, page, per_page: perPage, sort });
      const counts = Object.fromEntries(
        facets.map(name => [name, buckets(found.data.aggregations[name])]));
      return { total: found.pagination.total, facets: counts, items: found.data.items };
    },
    leavesOutOwnFilter: true,
  };
}

async function orama() {
  const { create, insertMultiple, getByID, search } = load('@orama/orama');
  const database = create({
    schema: {
      title: 'string', description: 'string', brand: 'enum', category: 'enum', country: 'enum',
      tags: 'enum[]', price: 'number', rating: 'number', year: 'number', in_stock: 'boolean',
    },
    components: { tokenizer: { language: 'english', stemming: false } },
    sort: { unsortableProperties: ['title', 'description', 'rating', 'year', 'in_stock'] },
  });
  const items = await readItems();
  for (let at = 0; at < items.length; at += BATCH_ITEMS) {
    const batch = items.slice(at, at + BATCH_ITEMS).map(item => ({ ...item, id: String(item.id) }));
    await insertMultiple(database, batch, BATCH_ITEMS);
  }
  return {
    item: number => ({ ...getByID(database, String(number)), id: number }),
    search: async ({ text, filters, facets, sort, page, perPage }) => {
      const where = {};
      for (const [name, values] of Object.entries(filters)) {
        where[name] = name === 'tags' ? { containsAll: values } : { in: values };
      }
      const query = {
        term: text, properties: ['title', 'description'], where, threshold: 0,
        limit: perPage, offset: (page - 1) * perPage,
      };
      if (facets.length) query.facets = Object.fromEntries(facets.map(name => [name, {}]));
      if (sort) query.sortBy = { property: sort, order: 'DESC' };
      const found = await search(database, query);
      const counts = {};
      for (const name of facets) {
        const entries = Object.entries(found.facets[name].values);
        counts[name] = entries.sort((a, b) => b[1] - a[1]).slice(0, TOP);
      }
      const hits = found.hits.map(hit => ({ ...hit.document, id: Number(hit.document.id) }));
      return { total: found.count, facets: counts, items: hits };
    },
    leavesOutOwnFilter: false,
  };
}

function readSearch(url) {
  const given = new URL(url, 'http://localhost').searchParams;
  const filters = {};
  for (const [name, value] of given) {
    if (name.startsWith('f.')) filters[name.slice(2)] = value.split(',');
  }
  return {
    text: given.get('text') ?? '',
    filters,
    facets: given.has('facets') ? given.get('facets').split(',') : [],
    sort: given.get('sort') ?? undefined,
    page: Number(given.get('page')),
    perPage: Number(given.get('per_page')),
    isDisjunctive: given.has('disjunctive'),
  };
}

async function answer(engine, search) {
  if (!search.isDisjunctive || engine.leavesOutOwnFilter) return engine.search(search);
  const own = search.facets.filter(name => name in search.filters);
  const rest = search.facets.filter(name => !own.includes(name));
  const found = await engine.search({ ...search, facets: rest });
  for (const name of own) {
    const filters = { ...search.filters };
    delete filters[name];
    const wider = await engine.search({ ...search, filters, facets: [name], page: 1, perPage: 1 });
    found.facets[name] = wider.facets[name];
  }
  return found;
}

async function main() {
  const engine = await { itemsjs, orama }[engineName]();
  http.createServer(async (request, response) => {
    let body;
    let status = 200;
    try {
      const isItem = request.url.startsWith('/item/');
      body = JSON.stringify(isItem
        ? engine.item(Number(request.url.slice('/item/'.length)))
        : await answer(engine, readSearch(request.url)));
    } catch (error) {
      console.error(error);
      status = 500;
      body = '{}';
    }
    response.writeHead(status,
      { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  }).listen(Number(port), '127.0.0.1');
}

main();
