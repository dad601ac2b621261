import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Asks for a URL three times over one client, trusting the given certificate, and prints each status and the version of HTTP. */
public class Client {
  public static void main(String[] args) throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (FileInputStream file = new FileInputStream(args[1])) {
      trusted.setCertificateEntry("edge", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    HttpClient client = HttpClient.newBuilder().sslContext(context).build();
    for (int i = 0; i < 3; i++) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).POST(HttpRequest.BodyPublishers.ofString("body")).build();
      HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
      System.out.println(response.statusCode() + " " + response.version() + " " + response.body());
    }
  }
}
