// The thinnest HTTP server in front of Lucene, for comparison only.
//   java LuceneServer index FOLDER ITEMS             load, commit
//   java LuceneServer merge FOLDER                   into one segment
//   java LuceneServer serve FOLDER PORT THREADS SEARCHERS
// With SEARCHERS above 1, as many threads share the segments of each query.
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoubleField;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.LongField;
import org.apache.lucene.document.SortedDocValuesField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.facet.FacetResult;
import org.apache.lucene.facet.Facets;
import org.apache.lucene.facet.FacetsCollector;
import org.apache.lucene.facet.FacetsCollectorManager;
import org.apache.lucene.facet.FacetsConfig;
import org.apache.lucene.facet.LabelAndValue;
import org.apache.lucene.facet.sortedset.DefaultSortedSetDocValuesReaderState;
import org.apache.lucene.facet.sortedset.SortedSetDocValuesFacetCounts;
import org.apache.lucene.facet.sortedset.SortedSetDocValuesFacetField;
import org.apache.lucene.facet.sortedset.SortedSetDocValuesReaderState;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.SortedDocValues;
import org.apache.lucene.index.SortedNumericDocValues;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.Collector;
import org.apache.lucene.search.CollectorManager;
import org.apache.lucene.search.FuzzyQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.MatchAllDocsQuery;
import org.apache.lucene.search.MultiCollectorManager;
import org.apache.lucene.search.MultiTermQuery;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.PrefixQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.Scorable;
import org.apache.lucene.search.ScoreMode;
import org.apache.lucene.search.Sort;
import org.apache.lucene.search.SortedNumericSelector;
import org.apache.lucene.search.TermInSetQuery;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopDocs;
import org.apache.lucene.search.TopFieldCollectorManager;
import org.apache.lucene.search.TopScoreDocCollectorManager;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.BytesRef;

public class LuceneServer {
  static final List<String> FACETS = List.of("brand", "category", "country", "tags");
  static final List<String> TEXTS = List.of("title", "description");
  static final String DISTINCT = "category";
  static final int TOP = 10;
  static final int BATCH_ITEMS = 500;
  static final int BUFFER_MB = 256;
  static final int MAX_EXPANSIONS = 1000;
  /** Whether a search without facets counts its hits apart and then skips what cannot be shown. */
  static final boolean COUNTS_FIRST = "1".equals(System.getenv("COUNTS_FIRST"));

  static FacetsConfig facetsConfig() {
    FacetsConfig config = new FacetsConfig();
    for (String name : FACETS) {
      config.setIndexFieldName(name, "$" + name);
      config.setMultiValued(name, name.equals("tags"));
    }
    return config;
  }

  // --- indexing

  static void index(Path folder, Path items) throws Exception {
    IndexWriterConfig settings = new IndexWriterConfig(new WhitespaceAnalyzer());
    settings.setRAMBufferSizeMB(BUFFER_MB);
    int numThreads = Runtime.getRuntime().availableProcessors();
    BlockingQueue<List<String>> queue = new ArrayBlockingQueue<>(4 * numThreads);
    ExecutorService threads = Executors.newFixedThreadPool(numThreads);
    try (IndexWriter writer = new IndexWriter(MMapDirectory.open(folder), settings)) {
      List<Future<?>> workers = new ArrayList<>();
      for (int i = 0; i < numThreads; i++) {
        workers.add(threads.submit(() -> {
          FacetsConfig config = facetsConfig();
          JsonFactory json = new JsonFactory();
          for (List<String> lines = queue.take(); !lines.isEmpty(); lines = queue.take()) {
            for (String line : lines) writer.addDocument(config.build(document(json, line)));
          }
          return null;
        }));
      }
      try (BufferedReader reader = Files.newBufferedReader(items)) {
        List<String> batch = new ArrayList<>();
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
          batch.add(line);
          if (batch.size() == BATCH_ITEMS) {
            queue.put(batch);
            batch = new ArrayList<>();
          }
        }
        if (!batch.isEmpty()) queue.put(batch);
      }
      for (int i = 0; i < numThreads; i++) queue.put(List.of());
      for (Future<?> worker : workers) worker.get();
      writer.commit();
    }
    threads.shutdown();
  }

  static void merge(Path folder) throws IOException {
    IndexWriterConfig settings = new IndexWriterConfig(new WhitespaceAnalyzer());
    try (IndexWriter writer = new IndexWriter(MMapDirectory.open(folder), settings)) {
      writer.forceMerge(1);
      writer.commit();
    }
  }

  static Document document(JsonFactory json, String line) throws IOException {
    Document document = new Document();
    document.add(new StoredField("source", line.getBytes(StandardCharsets.UTF_8)));
    try (JsonParser parser = json.createParser(line)) {
      parser.nextToken();
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String name = parser.currentName();
        JsonToken token = parser.nextToken();
        switch (name) {
          case "id" -> document.add(
              new StringField(name, Long.toString(parser.getLongValue()), Field.Store.NO));
          case "title", "description" -> document.add(
              new TextField(name, parser.getText(), Field.Store.NO));
          case "brand", "category", "country" -> addFacet(document, name, parser.getText());
          case "tags" -> {
            while (parser.nextToken() != JsonToken.END_ARRAY) {
              addFacet(document, name, parser.getText());
            }
          }
          case "price", "rating" -> document.add(
              new DoubleField(name, parser.getDoubleValue(), Field.Store.NO));
          case "year" -> document.add(
              new LongField(name, parser.getLongValue(), Field.Store.NO));
          case "in_stock" -> document.add(new StringField(
              name, String.valueOf(token == JsonToken.VALUE_TRUE), Field.Store.NO));
          default -> throw new IOException("unexpected field " + name);
        }
      }
    }
    return document;
  }

  static void addFacet(Document document, String name, String value) {
    document.add(new StringField(name, value, Field.Store.NO));
    document.add(new SortedSetDocValuesFacetField(name, value));
    if (name.equals(DISTINCT)) document.add(new SortedDocValuesField(name, new BytesRef(value)));
  }

  // --- searching

  static IndexSearcher searcher;
  static final Map<String, SortedSetDocValuesReaderState> facetStates = new HashMap<>();

  static Query word(String word, boolean isPrefix, int numTypos) {
    BooleanQuery.Builder either = new BooleanQuery.Builder();
    for (String name : TEXTS) {
      Term term = new Term(name, word);
      Query one = numTypos > 0
          ? new FuzzyQuery(term, numTypos, 0, MAX_EXPANSIONS, true)
          : isPrefix
          ? new PrefixQuery(term, MultiTermQuery.CONSTANT_SCORE_BLENDED_REWRITE)
          : new TermQuery(term);
      either.add(one, Occur.SHOULD);
    }
    return either.build();
  }

  static Query phrase(String[] words) {
    BooleanQuery.Builder either = new BooleanQuery.Builder();
    for (String name : TEXTS) either.add(new PhraseQuery(name, words), Occur.SHOULD);
    return either.build();
  }

  static Query query(Map<String, String> given, String without) {
    BooleanQuery.Builder all = new BooleanQuery.Builder();
    boolean isEmpty = true;
    String text = given.getOrDefault("text", "");
    String[] words = text.isEmpty() ? new String[0] : text.split(" ");
    int numTypos = Integer.parseInt(given.getOrDefault("typos", "0"));
    if (given.containsKey("phrase")) {
      all.add(phrase(words), Occur.MUST);
      words = new String[0];
      isEmpty = false;
    }
    for (int i = 0; i < words.length; i++) {
      boolean isPrefix = given.containsKey("prefix") && i == words.length - 1;
      all.add(word(words[i], isPrefix, numTypos), Occur.MUST);
      isEmpty = false;
    }
    for (String name : FACETS) {
      String values = given.get("f." + name);
      if (values == null || name.equals(without)) continue;
      List<BytesRef> terms = new ArrayList<>();
      for (String value : values.split(",")) terms.add(new BytesRef(value));
      all.add(terms.size() == 1
          ? new TermQuery(new Term(name, terms.get(0)))
          : new TermInSetQuery(name, terms), Occur.FILTER);
      isEmpty = false;
    }
    for (Map.Entry<String, String> pair : given.entrySet()) {
      if (!pair.getKey().startsWith("r.")) continue;
      String[] ends = pair.getValue().split(",");
      all.add(DoubleField.newRangeQuery(pair.getKey().substring("r.".length()),
          Double.parseDouble(ends[0]), Double.parseDouble(ends[1])), Occur.FILTER);
      isEmpty = false;
    }
    return isEmpty ? MatchAllDocsQuery.INSTANCE : all.build();
  }

  static byte[] search(Map<String, String> given) throws IOException {
    int perPage = Integer.parseInt(given.getOrDefault("per_page", "10"));
    int end = Integer.parseInt(given.getOrDefault("page", "1")) * perPage;
    Query query = query(given, "");
    if (given.containsKey("distinct")) return searchDistinct(query, given, end, perPage);
    String[] facets = given.containsKey("facets") ? given.get("facets").split(",") : new String[0];
    boolean countsHits = facets.length > 0 && !(query instanceof MatchAllDocsQuery);
    boolean isCounted = !countsHits && COUNTS_FIRST;
    int threshold = isCounted ? end : Integer.MAX_VALUE;
    CollectorManager<?, ? extends TopDocs> best = given.containsKey("sort")
        ? new TopFieldCollectorManager(
            new Sort(DoubleField.newSortField(
                given.get("sort"), true, SortedNumericSelector.Type.MAX)),
            end, null, threshold)
        : new TopScoreDocCollectorManager(end, null, threshold);
    FacetsCollector within = null;
    TopDocs hits;
    if (countsHits) {
      Object[] both = searcher.search(
          query, new MultiCollectorManager(best, new FacetsCollectorManager()));
      hits = (TopDocs) both[0];
      within = (FacetsCollector) both[1];
    } else {
      hits = searcher.search(query, best);
    }
    StringBuilder head = new StringBuilder(8192);
    head.append("{\"total\":").append(isCounted ? searcher.count(query) : hits.totalHits.value()).append(",\"facets\":{");
    String separator = "";
    for (String name : facets) {
      FacetsCollector own = within;
      if (given.containsKey("disjunctive") && given.containsKey("f." + name)) {
        own = searcher.search(query(given, name), new FacetsCollectorManager());
      }
      head.append(separator);
      appendFacet(head, name, own);
      separator = ",";
    }
    head.append("},\"items\":[");
    int[] docs = Arrays.stream(hits.scoreDocs).mapToInt(hit -> hit.doc).toArray();
    return page(head, docs, end - perPage);
  }

  static byte[] page(StringBuilder head, int[] docs, int start) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream(16384);
    out.write(head.toString().getBytes(StandardCharsets.UTF_8));
    StoredFields stored = searcher.storedFields();
    for (int i = start; i < docs.length; i++) {
      if (i > start) out.write(',');
      BytesRef source = stored.document(docs[i]).getBinaryValue("source");
      out.write(source.bytes, source.offset, source.length);
    }
    out.write("]}".getBytes(StandardCharsets.UTF_8));
    return out.toByteArray();
  }

  // --- the dearest item of each category

  record Dearest(int doc, long price) {}

  /** Keeps, by ordinal of a segment, the document with the greatest price; the first of equals. */
  static class DearestCollector implements Collector {
    final Map<BytesRef, Dearest> best = new HashMap<>();
    final String number;
    SortedDocValues values;
    long[] prices;
    int[] docs;
    int base;

    DearestCollector(String number) {
      this.number = number;
    }

    @Override
    public LeafCollector getLeafCollector(LeafReaderContext leaf) throws IOException {
      values = leaf.reader().getSortedDocValues(DISTINCT);
      SortedNumericDocValues numbers = leaf.reader().getSortedNumericDocValues(number);
      prices = new long[values.getValueCount()];
      docs = new int[prices.length];
      Arrays.fill(docs, -1);
      base = leaf.docBase;
      return new LeafCollector() {
        @Override
        public void setScorer(Scorable scorer) {}

        @Override
        public void collect(int doc) throws IOException {
          values.advanceExact(doc);
          numbers.advanceExact(doc);
          int at = values.ordValue();
          long price = numbers.nextValue();
          if (docs[at] < 0 || price > prices[at]) {
            docs[at] = doc;
            prices[at] = price;
          }
        }

        @Override
        public void finish() throws IOException {
          for (int at = 0; at < docs.length; at++) {
            if (docs[at] < 0) continue;
            best.merge(BytesRef.deepCopyOf(values.lookupOrd(at)),
                new Dearest(base + docs[at], prices[at]), LuceneServer::dearer);
          }
        }
      };
    }

    @Override
    public ScoreMode scoreMode() {
      return ScoreMode.COMPLETE_NO_SCORES;
    }
  }

  static Dearest dearer(Dearest one, Dearest other) {
    return one.price > other.price || (one.price == other.price && one.doc < other.doc)
        ? one : other;
  }

  static byte[] searchDistinct(Query query, Map<String, String> given, int end, int perPage)
      throws IOException {
    Map<BytesRef, Dearest> best = searcher.search(query,
        new CollectorManager<DearestCollector, Map<BytesRef, Dearest>>() {
          @Override
          public DearestCollector newCollector() {
            return new DearestCollector(given.get("sort"));
          }

          @Override
          public Map<BytesRef, Dearest> reduce(Collection<DearestCollector> collectors) {
            Map<BytesRef, Dearest> all = new HashMap<>();
            for (DearestCollector one : collectors) {
              one.best.forEach((value, hit) -> all.merge(value, hit, LuceneServer::dearer));
            }
            return all;
          }
        });
    int[] docs = best.values().stream()
        .sorted(Comparator.comparingLong(Dearest::price).reversed()
            .thenComparingInt(Dearest::doc))
        .limit(end).mapToInt(Dearest::doc).toArray();
    StringBuilder head = new StringBuilder("{\"total\":").append(best.size())
        .append(",\"facets\":{},\"items\":[");
    return page(head, docs, end - perPage);
  }

  static void appendFacet(StringBuilder out, String name, FacetsCollector within)
      throws IOException {
    SortedSetDocValuesReaderState state = facetStates.get(name);
    Facets counts = within == null
        ? new SortedSetDocValuesFacetCounts(state)
        : new SortedSetDocValuesFacetCounts(state, within);
    FacetResult result = counts.getTopChildren(TOP, name);
    out.append('"').append(name).append("\":[");
    String separator = "";
    if (result != null) {
      for (LabelAndValue bucket : result.labelValues) {
        out.append(separator).append("[\"").append(bucket.label).append("\",")
            .append(bucket.value.intValue()).append(']');
        separator = ",";
      }
    }
    out.append(']');
  }

  static byte[] item(String number) throws IOException {
    TopDocs hits = searcher.search(new TermQuery(new Term("id", number)), 1);
    if (hits.scoreDocs.length == 0) return null;
    BytesRef source =
        searcher.storedFields().document(hits.scoreDocs[0].doc).getBinaryValue("source");
    return Arrays.copyOfRange(source.bytes, source.offset, source.offset + source.length);
  }

  // --- HTTP

  static void serve(Path folder, int port, int numThreads, int numSearchers) throws IOException {
    DirectoryReader reader = DirectoryReader.open(MMapDirectory.open(folder));
    searcher = numSearchers > 1
        ? new IndexSearcher(reader, Executors.newFixedThreadPool(numSearchers))
        : new IndexSearcher(reader);
    for (String name : FACETS) {
      facetStates.put(name,
          new DefaultSortedSetDocValuesReaderState(reader, "$" + name, facetsConfig()));
    }
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 1024);
    server.setExecutor(Executors.newFixedThreadPool(numThreads));
    server.createContext("/", LuceneServer::answer);
    server.start();
  }

  static void answer(HttpExchange exchange) throws IOException {
    byte[] body;
    int status = 200;
    try {
      String path = exchange.getRequestURI().getPath();
      body = path.startsWith("/item/")
          ? item(path.substring("/item/".length()))
          : search(parameters(exchange.getRequestURI().getRawQuery()));
      if (body == null) {
        status = 404;
        body = "{}".getBytes(StandardCharsets.UTF_8);
      }
    } catch (Exception error) {
      error.printStackTrace();
      status = 500;
      body = "{}".getBytes(StandardCharsets.UTF_8);
    }
    exchange.getResponseHeaders().set("content-type", "application/json");
    exchange.sendResponseHeaders(status, body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  static Map<String, String> parameters(String query) {
    Map<String, String> given = new HashMap<>();
    for (String pair : query == null ? new String[0] : query.split("&")) {
      int at = pair.indexOf('=');
      given.put(pair.substring(0, at),
          URLDecoder.decode(pair.substring(at + 1), StandardCharsets.UTF_8));
    }
    return given;
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("index")) {
      index(Path.of(arguments[1]), Path.of(arguments[2]));
    } else if (arguments[0].equals("merge")) {
      merge(Path.of(arguments[1]));
    } else {
      serve(Path.of(arguments[1]), Integer.parseInt(arguments[2]),
          Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
    }
  }
}
