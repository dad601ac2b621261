// Asks for a URL three times over one client, trusting the given certificate, and prints each status and the version of HTTP.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	certificate, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	for i := 0; i < 3; i++ {
		response, err := client.Post(os.Args[1], "text/plain", strings.NewReader("body"))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Println(response.StatusCode, response.Proto, string(body))
	}
}
