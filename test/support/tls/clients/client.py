"""Asks for a URL three times over one connection, trusting the given certificate, and prints each status and the version of TLS."""

import http.client
import ssl
import sys
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPSConnection(url.hostname, url.port, context=ssl.create_default_context(cafile=sys.argv[2]))
for _ in range(3):
    connection.request("POST", url.path, body="body")
    response = connection.getresponse()
    print(response.status, connection.sock.version() if connection.sock else "closed", response.read().decode())
