import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.Embedding;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.embedding.EmbeddingRequest;
import org.springframework.ai.embedding.EmbeddingResponse;
import org.springframework.ai.vectorstore.SearchRequest;
import org.springframework.ai.vectorstore.pgvector.PgVectorStore;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * The table of Spring AI's `PgVectorStore`, which writes and searches it.
 * Arguments: the folder, the server's URL, the user, and the version of the package.
 */
public class Books {
    static final int K = 10;

    /** Rows of an array of float32 in numpy's format, version 1. */
    static float[][] read(Path path) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
        int length = data.getShort(8);
        String header = new String(data.array(), 10, length);
        String[] shape = header.replaceAll(".*\\(|\\).*", "").trim().split(", *");
        float[][] rows = new float[Integer.parseInt(shape[0])][Integer.parseInt(shape[1])];
        data.position(10 + length);
        for (float[] row : rows) for (int at = 0; at < row.length; at++) row[at] = data.getFloat();
        return rows;
    }

    /** Embeddings that are there already: those of "row 7" and "query 3". */
    record Known(float[][] rows, float[][] queries) implements EmbeddingModel {
        public float[] embed(String text) {
            String[] words = text.split(" ");
            return (words[0].equals("row") ? rows : queries)[Integer.parseInt(words[1])];
        }

        public float[] embed(Document document) {
            return embed(document.getText());
        }

        public EmbeddingResponse call(EmbeddingRequest request) {
            List<Embedding> found = new ArrayList<>();
            for (String text : request.getInstructions())
                found.add(new Embedding(embed(text), found.size()));
            return new EmbeddingResponse(found);
        }

        public int dimensions() {
            return rows[0].length;
        }
    }

    public static void main(String[] words) throws Exception {
        Path folder = Path.of(words[0]);
        JdbcTemplate jdbc = new JdbcTemplate(
            new DriverManagerDataSource(words[1], words[2], System.getenv("PGPASSWORD")));
        float[][] rows = read(folder.resolve("rows.npy"));
        float[][] queries = read(folder.resolve("queries.npy"));
        // As its documentation says; it would make it by an extension that not every server has.
        jdbc.execute("CREATE TABLE vector_store (id uuid DEFAULT gen_random_uuid() PRIMARY KEY,"
            + " content text, metadata json, embedding vector(" + rows[0].length + "))");
        jdbc.execute("CREATE INDEX ON vector_store USING HNSW (embedding vector_cosine_ops)");
        PgVectorStore store = PgVectorStore.builder(jdbc, new Known(rows, queries))
            .dimensions(rows[0].length).initializeSchema(false).build();
        store.afterPropertiesSet();
        List<Document> documents = new ArrayList<>();
        for (int at = 0; at < rows.length; at++)
            documents.add(new Document("row " + at, Map.of("n", at % 7)));
        store.add(documents);
        jdbc.execute("ANALYZE");
        List<List<Integer>> answers = new ArrayList<>();
        for (int at = 0; at < queries.length; at++) {
            SearchRequest request = SearchRequest.builder().query("query " + at).topK(K).build();
            List<Integer> found = new ArrayList<>();
            for (Document one : store.similaritySearch(request))
                found.add(Integer.parseInt(one.getText().split(" ")[1]));
            answers.add(found);
        }
        System.out.println("{\"collection\": \"vector_store\", \"options\": {}, \"answers\": " + answers
            + ", \"version\": \"spring-ai-pgvector-store " + words[3] + "\"}");
    }
}
