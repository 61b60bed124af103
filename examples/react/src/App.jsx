import {
  Configure,
  Highlight,
  Hits,
  InstantSearch,
  Pagination,
  RangeInput,
  RefinementList,
  SearchBox,
  SortBy,
  Stats,
  useInstantSearch,
} from "react-instantsearch";

function Product({ hit }) {
  return (
    <article>
      <h3>
        <Highlight hit={hit} attribute="name" />
      </h3>
      <p>
        {hit.category}, {hit.colour}
      </p>
      <strong>€ {hit.price}</strong>
    </article>
  );
}

/** How many hits there are, or why the search failed. */
function Outcome() {
  const { error } = useInstantSearch({ catchError: true });
  return error ? <span role="alert">The search failed: {error.message}</span> : <Stats />;
}

export function App({ searchClient }) {
  return (
    <InstantSearch indexName="products" searchClient={searchClient}>
      <Configure hitsPerPage={12} />
      <h1>Shop</h1>
      <SearchBox placeholder="What are you looking for?" />
      <div className="bar">
        <Outcome />
        <SortBy
          items={[
            { label: "Best first", value: "products" },
            { label: "Cheapest first", value: "products:price:asc" },
          ]}
        />
      </div>
      <main>
        <aside>
          <h2>Category</h2>
          <RefinementList attribute="category" />
          <h2>Colour</h2>
          <RefinementList attribute="colour" />
          <h2>Price</h2>
          <RangeInput attribute="price" />
        </aside>
        <div>
          <Hits hitComponent={Product} />
          <Pagination />
        </div>
      </main>
    </InstantSearch>
  );
}
