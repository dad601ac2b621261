/** Values that nobody takes, of every variable that is read in a way of its own, in the order of the settings. */
export const BAD_VALUES: readonly (readonly [variable: string, values: readonly string[]])[] = [
  ['EDGE_MODE', ['proxy', 'DECISION_SERVICE', 'constructor']],
  ['EDGE_PORT', ['http', '-1', '65536', 'OFF', '80.5', '0x50', '8080 ', '٨٠']],
  ['EDGE_HOST', ['http://127.0.0.1', 'a b', '127.0.0.1/8']],
  ['EDGE_SOCKET', ['/run/edge/', `/run/${'x'.repeat(103)}`, '/run/ü'.repeat(16)]],
  ['EDGE_SOCKET_MODE', ['660x', '0o660', '66', '888', '01777', 'rw-rw----', '-660']],
  ['EDGE_GRPC_SOCKET', ['/', `/${'x'.repeat(107)}`]],
  ['EDGE_TLS_CERT_FILE', ['a.pem,,b.pem', ',', 'a.pem,']],
  ['EDGE_TLS_KEY_FILE', [',a.key']],
  ['EDGE_TLS_LISTENERS', ['socket', 'main;grpc', 'Main', 'main,']],
  ['EDGE_TLS_CLIENT_AUTH', ['on', 'Require', 'optional']],
  [
    'EDGE_CONFIG_URL',
    ['bundles.example/b', 'ftp://bundles.example/b', 'file:///b.json', 'http://user:pw@bundles.example/b', 'http://h/#f'],
  ],
  ['EDGE_CONFIG_TOKEN', ['two words', 'line\nbreak', 'schlüssel']],
  ['EDGE_CONFIG_POLL_INTERVAL', ['0', '-1', '30s', '0.01', '1e1', '86401', '.5']],
  ['EDGE_CONFIG_PUBLIC_KEY', ['secret', '/etc/edge.pub', 'AAAA', '-----BEGIN PRIVATE KEY-----']],
  ['EDGE_BACKEND_URL', ['backend:80', 'ftp://backend', '//backend', 'http://']],
  ['EDGE_BACKEND_MAX_CONNECTIONS', ['0', '-1', '1.5', 'many', '99999999']],
  ['EDGE_BACKEND_QUEUE_MS', ['-1', '1s', '99999999999']],
  ['EDGE_MAX_WAITING', ['-1', '1.5', 'many', '100001', '1e3', ' 5']],
  ['EDGE_TRUSTED_PROXIES', ['10.0.0.0/33', 'everybody', '10.0.0.1:80', 'loopback,10.0.0.0/8,x']],
  [
    'EDGE_BACKEND_HOSTS',
    ['https://idp.example', 'idp.example/keys', '*', 'a.example,b c', 'a.example:0', 'a.example:70000', 'bücher.example'],
  ],
  ['EDGE_WORKERS', ['0', '-1', '1.5', 'many', '255', '1e1', ' 2', '0x2', '1000']],
  ['EDGE_STORE_SIZE', ['big', '-1', '0', '1', '64mm', '64 m', '1e9', '9g', '99999999999999999999']],
  ['EDGE_REDIS_URL', ['localhost:6379', 'http://localhost', 'redis://', 'redis://a,b/1', 'redis+sentinel://a']],
  ['EDGE_REDIS_PREFIX', ['edge :', 'größe:', 'x'.repeat(65)]],
  ['EDGE_REDIS_MODE', ['fast', 'EXACT']],
  ['EDGE_REDIS_LEASE_MS', ['0', '49', '60001', '1s']],
  ['EDGE_REDIS_TIMEOUT_MS', ['0', '60001', '-1', '50ms']],
  ['EDGE_REDIS_FAILURE_MODE', ['closed ', 'deny']],
  ['EDGE_ADMIN_PORT', ['admin', '70000', '-5']],
  ['EDGE_ADMIN_HOST', ['http://127.0.0.1', '127.0.0.1:9090/x', 'a b']],
  ['EDGE_ADMIN_TOKEN', ['short', 'x'.repeat(31), `two words ${'x'.repeat(32)}`, 'ü'.repeat(32)]],
  ['EDGE_TOP', ['ON', 'yes']],
  ['EDGE_LOG_LEVEL', ['verbose', 'INFO', '30', '__proto__']],
  ['EDGE_EVENTS_URL', ['hooks.example/e', 'ftp://hooks.example/', 'http://user:pw@hooks.example/', 'http://h/#f']],
  ['EDGE_EVENTS_SECRET', ['secret', 'whsec_', 'whsec_c2hvcnQ=', `whsec_${'*'.repeat(44)}`]],
  [
    'EDGE_OTLP_URL',
    ['collector:4318', 'grpc://collector', '/run/otel.sock', 'http://user:pw@h', 'http://h/?key=a', 'http://h/#f', 'http://h/v1/traces'],
  ],
  ['EDGE_OTLP_SAMPLE', ['1%', '-0.1', '1.1', '2', '1e-2', 'all', '0.', '1,0', '0x1']],
  ['EDGE_KEEPALIVE_MS', ['0', '-1', '1.5', '75s', '1e3', '99999999999']],
  ['EDGE_HEADERS_TIMEOUT_MS', ['0', '-1', 'never']],
  ['EDGE_REQUEST_TIMEOUT_MS', ['0', '5m']],
  ['EDGE_DRAIN_MS', ['soon', '-1', 'NaN', 'Infinity']],
  ['EDGE_SHUTDOWN_MS', ['never', '30s', '0x10']],
]

/** Environments in which nothing is right. Each bad value is in at least one of them. */
export function badEnvironments(): Readonly<Record<string, string>>[] {
  const most = Math.max(...BAD_VALUES.map(([, values]) => values.length))
  return Array.from({ length: most }, (_, i) =>
    Object.fromEntries(BAD_VALUES.map(([variable, values]) => [variable, values[i % values.length]!])),
  )
}
