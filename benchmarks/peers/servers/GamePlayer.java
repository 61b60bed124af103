// Lucene in the query game, one thread; the protocol is that of game_player.py.
//   java GamePlayer build ITEMS FOLDER      index the text of each item, merge into one segment
//   java GamePlayer play FOLDER QUERIES     take commands from the standard input
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.PhraseQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopDocs;
import org.apache.lucene.search.TopScoreDocCollectorManager;
import org.apache.lucene.store.MMapDirectory;

public class GamePlayer {
  static final String FIELD = "text";
  static final int BUFFER_MB = 512;

  static void build(Path items, Path folder) throws IOException {
    IndexWriterConfig settings = new IndexWriterConfig(new WhitespaceAnalyzer());
    settings.setRAMBufferSizeMB(BUFFER_MB);
    JsonFactory json = new JsonFactory();
    try (IndexWriter writer = new IndexWriter(MMapDirectory.open(folder), settings);
        BufferedReader reader = Files.newBufferedReader(items)) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        Document document = new Document();
        try (JsonParser parser = json.createParser(line)) {
          parser.nextToken();
          while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            parser.nextToken();
            if (name.equals(FIELD)) {
              document.add(new TextField(FIELD, parser.getText(), Field.Store.NO));
            }
          }
        }
        writer.addDocument(document);
      }
      writer.forceMerge(1);
      writer.commit();
    }
  }

  static Query query(String line) {
    String[] parts = line.split("\t");
    String[] words = parts[1].split(" ");
    if (parts[0].equals("phrase")) return new PhraseQuery(FIELD, words);
    if (words.length == 1) return new TermQuery(new Term(FIELD, words[0]));
    Occur occur = parts[0].equals("intersection") ? Occur.MUST : Occur.SHOULD;
    BooleanQuery.Builder all = new BooleanQuery.Builder();
    for (String word : words) all.add(new TermQuery(new Term(FIELD, word)), occur);
    return all.build();
  }

  /** Runs one query; returns its hits, or null for COUNT, whose result is left in `count`. */
  static TopDocs run(IndexSearcher searcher, Query query, String command) throws IOException {
    switch (command) {
      case "COUNT":
        count = searcher.count(query);
        return null;
      case "TOP_10":
        return searcher.search(query, new TopScoreDocCollectorManager(10, null, 10));
      case "TOP_10_COUNT":
        return searcher.search(
            query, new TopScoreDocCollectorManager(10, null, Integer.MAX_VALUE));
      case "TOP_100_COUNT":
        return searcher.search(
            query, new TopScoreDocCollectorManager(100, null, Integer.MAX_VALUE));
      default:
        throw new IllegalArgumentException(command);
    }
  }

  static int count;

  static void play(Path folder, Path file) throws IOException {
    DirectoryReader reader = DirectoryReader.open(MMapDirectory.open(folder));
    IndexSearcher searcher = new IndexSearcher(reader);
    searcher.setQueryCache(null);
    List<Query> queries = new ArrayList<>();
    for (String line : Files.readAllLines(file)) queries.add(query(line));
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    System.out.println("ready segments: " + reader.leaves().size());
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String command = commands.readLine(); command != null; command = commands.readLine()) {
      StringBuilder out = new StringBuilder();
      for (Query query : queries) {
        long started = clock.getCurrentThreadCpuTime();
        TopDocs found = run(searcher, query, command);
        long took = clock.getCurrentThreadCpuTime() - started;
        long total = found == null ? count : command.equals("TOP_10") ? -1 : found.totalHits.value();
        out.append(took).append(' ').append(total);
        if (found != null) {
          for (ScoreDoc hit : found.scoreDocs) out.append(' ').append(hit.score);
        }
        out.append('\n');
      }
      System.out.println(out);
      System.out.flush();
    }
  }

  public static void main(String[] arguments) throws IOException {
    Path first = Path.of(arguments[1]);
    Path second = Path.of(arguments[2]);
    if (arguments[0].equals("build")) build(first, second);
    else play(first, second);
  }
}
