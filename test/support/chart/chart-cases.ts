import type { Values } from './helm.ts'

const BUNDLE = { inline: 'bundle_version: 1\npolicies: []\n' }
const PEER = [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'gateways' } } }]

function secret(name: string): { name: string; key: string } {
  return { name: 'edge-secrets', key: name }
}

export const MINIMAL: Values = { bundle: BUNDLE }

/** Ways to install the chart. Together they set every value and every setting; a test compares. */
export const CHART_CASES: Readonly<Record<string, Values>> = {
  minimal: MINIMAL,

  'gRPC alone, with TLS to clients that have certificates': {
    bundle: {
      ...BUNDLE,
      signature: 'c2lnbmF0dXJl',
      publicKey: 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=',
      restartOnChange: true,
    },
    ports: { http: false, grpc: 8081, admin: 9091 },
    tls: {
      certificates: ['edge-tls', 'edge-tls-2'],
      listeners: ['main', 'grpc'],
      clientCa: { configMap: 'clients', key: 'authorities.pem' },
    },
    settings: {
      EDGE_SOCKET: '/run/edge/edge.sock',
      EDGE_GRPC_SOCKET: '/run/edge/grpc.sock',
      EDGE_SOCKET_MODE: '0666',
      EDGE_HOST: '0.0.0.0',
    },
    networkPolicy: { enabled: true, clients: PEER, operators: PEER },
    extraVolumes: [{ name: 'run', emptyDir: {} }],
    extraVolumeMounts: [{ name: 'run', mountPath: '/run/edge' }],
  },

  'a fleet with everything': {
    nameOverride: 'limits',
    fullnameOverride: 'company-limits',
    image: { repository: 'images.example/edge', digest: `sha256:${'0'.repeat(64)}`, pullPolicy: 'Always' },
    imagePullSecrets: [{ name: 'pull' }],
    bundle: { url: 'https://config.example:8443/limits.yaml' },
    ports: { http: 8000, grpc: 8001, admin: 9000 },
    secrets: Object.fromEntries(
      [
        ...['EDGE_REDIS_URL', 'EDGE_ADMIN_TOKEN', 'EDGE_ADMIN_READ_TOKEN', 'EDGE_CONFIG_TOKEN', 'EDGE_RESERVATION_SECRET'],
        ...['EDGE_DEBUG_SESSION_SECRET', 'EDGE_EVENTS_SECRET', 'EDGE_SECRET_OPENAI'],
      ].map((name) => [name, secret(name)]),
    ),
    secretsDir: 'provider-keys',
    extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/etc/edge/ca.pem' }],
    settings: {
      EDGE_RATELIMIT_POLICY: true,
      EDGE_CONFIG_POLL_INTERVAL: 0.5,
      EDGE_TRUSTED_PROXIES: '10.0.0.0/8',
      EDGE_GATEWAY_HINTS: 'on',
      EDGE_BACKEND_HOSTS: 'login.example.com,idp.internal:8443',
      EDGE_MAX_KEYS: 2_000_000,
      EDGE_GEOIP_FILE: '/data/country.mmdb',
      EDGE_IP_TYPE_FILE: '/data/types.csv',
      EDGE_TOR_EXITS_FILE: '/data/exits.txt',
      EDGE_WORKERS: 4,
      EDGE_STORE_SIZE: '128m',
      EDGE_REDIS_PREFIX: 'limits:',
      EDGE_REDIS_MODE: 'leased',
      EDGE_REDIS_LEASE_MS: 2000,
      EDGE_REDIS_TIMEOUT_MS: 60_000,
      EDGE_REDIS_FAILURE_MODE: 'open',
      EDGE_ADMIN_HOST: '::',
      EDGE_TOP: false,
      EDGE_LOG_LEVEL: 'warn',
      EDGE_EVENTS_URL: 'https://events.example/hook',
      EDGE_EVENTS_FORMAT: 'json',
      EDGE_OTLP_URL: 'http://collector.example:4318',
      EDGE_OTLP_SAMPLE: 0.25,
      EDGE_KEEPALIVE_MS: 60_000,
      EDGE_HEADERS_TIMEOUT_MS: 10_000,
      EDGE_REQUEST_TIMEOUT_MS: 10_000_000,
      EDGE_DRAIN_MS: 10_000,
    },
    data: {
      keysFile: true,
      decisionLog: true,
      volume: 'claim',
      claim: { accessMode: 'ReadWriteMany', size: '10Gi', storageClassName: 'shared' },
    },
    autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 9, targetCPUUtilizationPercentage: 60 },
    podDisruptionBudget: { maxUnavailable: '20%' },
    rollout: { maxSurge: 1, extraGraceSeconds: 30 },
    probes: { readiness: { initialDelaySeconds: 1, periodSeconds: 2, timeoutSeconds: 1, failureThreshold: 1 } },
    service: { type: 'LoadBalancer', annotations: { 'example.com/internal': 'true' }, externalTrafficPolicy: 'Local' },
    serviceAccount: { name: 'limits', annotations: { 'example.com/role': 'limits' } },
    networkPolicy: {
      enabled: true,
      clients: PEER,
      operators: PEER,
      egress: { redis: { to: PEER, ports: [6380] }, traces: { to: PEER }, extra: [{ to: PEER }] },
    },
    metrics: {
      serviceMonitor: { enabled: true, labels: { prometheus: 'main' }, interval: '30s', scrapeTimeout: '5s' },
      prometheusRule: { enabled: true, labels: { prometheus: 'main' }, runbookUrl: 'https://docs.example/runbook' },
    },
    topologySpreadConstraints: [],
    nodeSelector: { 'kubernetes.io/arch': 'arm64' },
    tolerations: [{ key: 'edge', operator: 'Exists' }],
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
    priorityClassName: 'high',
    podAnnotations: { 'example.com/team': 'platform' },
    podLabels: { team: 'platform' },
    extraVolumes: [{ name: 'ip-data', configMap: { name: 'ip-data' } }],
    extraVolumeMounts: [{ name: 'ip-data', mountPath: '/data' }],
  },

  'one proxy that keeps what it counted': {
    mode: 'reverse_proxy',
    replicas: 1,
    bundle: { configMap: 'limits', key: 'limits.json' },
    secrets: { EDGE_EVENTS_URL: secret('slack') },
    tls: { certificates: ['edge-tls'], listeners: ['main', 'admin'] },
    settings: {
      EDGE_BACKEND_URL: 'http://models.internal:8000/v1',
      EDGE_BACKEND_HOST: 'client',
      EDGE_BACKEND_CONNECT_TIMEOUT_MS: 1000,
      EDGE_BACKEND_HEADERS_TIMEOUT_MS: 0,
      EDGE_BACKEND_IDLE_TIMEOUT_MS: 0,
      EDGE_BACKEND_MAX_CONNECTIONS: 100,
      EDGE_BACKEND_QUEUE_MS: 0,
      EDGE_MAX_BODY_BYTES: '8m',
      EDGE_BODY_MEMORY: 134_217_728,
      EDGE_MAX_WAITING: 10,
      EDGE_USAGE_KEEP_DAYS: 400,
      EDGE_EVENTS_FORMAT: 'slack',
      EDGE_SHUTDOWN_MS: 120_000,
    },
    data: { stateFile: true, usageLog: true, volume: 'claim' },
    networkPolicy: { enabled: true },
    metrics: { serviceMonitor: { enabled: true, tlsConfig: { insecureSkipVerify: true } } },
    podDisruptionBudget: { enabled: false },
    serviceAccount: { create: false },
  },

  'a bundle from a URL that is a secret, and files of yours': {
    replicas: 3,
    secrets: { EDGE_CONFIG_URL: secret('url') },
    data: { sizeLimit: '100Mi' },
    networkPolicy: { enabled: true, egress: { dns: { to: [] } } },
  },
}

/** Values of the Secrets above that their settings accept. */
export const SECRET_VALUES: Readonly<Record<string, string>> = {
  EDGE_REDIS_URL: 'redis://127.0.0.1:1',
  EDGE_ADMIN_TOKEN: 'a'.repeat(40),
  EDGE_ADMIN_READ_TOKEN: 'b'.repeat(40),
  EDGE_CONFIG_TOKEN: 'token',
  EDGE_CONFIG_URL: 'https://config.example/limits.yaml?signature=1',
  EDGE_RESERVATION_SECRET: 'c'.repeat(40),
  EDGE_DEBUG_SESSION_SECRET: 'd'.repeat(40),
  EDGE_EVENTS_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  EDGE_EVENTS_URL: 'https://hooks.example/services/T/B/x',
  EDGE_SECRET_OPENAI: 'key',
}

/** Values that cannot work, each with what Helm says. */
export const REFUSED_VALUES: readonly (readonly [values: Values, says: RegExp])[] = [
  [{}, /edge decides nothing without a bundle\. Add --set-file bundle\.inline=limits\.yaml/],
  [{ bundle: { inline: 'x', url: 'https://a.example' } }, /expected one source of bundles, got bundle\.inline and bundle\.url/],
  [{ bundle: { inline: 'x'.repeat(1_000_001) } }, /bundle\.inline: expected at most 1,000,000 bytes.*got 1000001/],
  [{ bundle: { configMap: 'x', signature: 'x' } }, /bundle\.signature: expected bundle\.inline/],
  [{ ...MINIMAL, secrets: { EDGE_CONFIG_TOKEN: secret('x') } }, /EDGE_CONFIG_TOKEN: expected bundle\.url/],
  [{ ...MINIMAL, mode: 'proxy' }, /'?\/mode'?: value must be one of 'decision_service', 'reverse_proxy'/],
  [{ ...MINIMAL, mode: 'reverse_proxy' }, /reverse_proxy needs settings\.EDGE_BACKEND_URL/],
  [{ ...MINIMAL, mode: 'reverse_proxy', settings: { EDGE_BACKEND_URL: 'http://a' }, ports: { grpc: 8081 } }, /ports\.grpc: expected off/],
  [
    { ...MINIMAL, mode: 'reverse_proxy', settings: { EDGE_BACKEND_URL: 'http://a' }, ports: { http: 'off' } },
    /ports\.http: expected a port/,
  ],
  [{ ...MINIMAL, ports: { http: false } }, /ports: expected a port in http or grpc/],
  [{ ...MINIMAL, ports: { admin: 8080 } }, /ports\.admin: expected a port that no other one has, got 8080/],
  [{ ...MINIMAL, ports: { admin: false } }, /\/ports\/admin.*got boolean, want integer/s],
  [{ ...MINIMAL, data: { usageLog: true } }, /data\.usageLog: expected mode reverse_proxy/],
  [{ ...MINIMAL, settings: { EDGE_ADMIN_HOST: '127.0.0.1' } }, /would listen on 127\.0\.0\.1, where no probe of Kubernetes reaches it/],
  [{ ...MINIMAL, settings: { EDGE_HOST: '::1' } }, /would listen on ::1/],
  [{ ...MINIMAL, settings: { EDGE_LOGLEVEL: 'warn' } }, /\/settings.*'EDGE_LOGLEVEL' not allowed/s],
  [{ ...MINIMAL, settings: { EDGE_REDIS_TIMEOUT_MS: 60_001 } }, /EDGE_REDIS_TIMEOUT_MS.*got 60,001, want 60,000/s],
  [{ ...MINIMAL, settings: { EDGE_SOCKET_MODE: 432 } }, /EDGE_SOCKET_MODE.*got number, want string/s],
  [{ ...MINIMAL, settings: { EDGE_ADMIN_TOKEN: 'a'.repeat(40) } }, /\/settings.*'EDGE_ADMIN_TOKEN' not allowed/s],
  [{ ...MINIMAL, settings: { EDGE_REDIS_URL: 'redis://a' } }, /\/settings.*'EDGE_REDIS_URL' not allowed/s],
  [{ ...MINIMAL, secrets: { EDGE_ADMIN_TOKEN: 'a'.repeat(40) } }, /EDGE_ADMIN_TOKEN.*got string, want object/s],
  [{ ...MINIMAL, secrets: { EDGE_ADMIN_TOKEN: { name: 'x' } } }, /EDGE_ADMIN_TOKEN.*missing property 'key'/s],
  [{ ...MINIMAL, secrets: { EDGE_LOG_LEVEL: secret('x') } }, /\/secrets.*'EDGE_LOG_LEVEL' not allowed/s],
  [{ ...MINIMAL, settings: { EDGE_REDIS_MODE: 'leased' } }, /settings\.EDGE_REDIS_MODE: expected secrets\.EDGE_REDIS_URL/],
  [{ ...MINIMAL, secrets: { EDGE_ADMIN_READ_TOKEN: secret('x') } }, /expected EDGE_ADMIN_TOKEN too/],
  [
    { ...MINIMAL, extraEnv: [{ name: 'EDGE_DRAIN_MS', value: '1' }] },
    /extraEnv: expected no variables of edge, got EDGE_DRAIN_MS\. Set it below settings/,
  ],
  [{ ...MINIMAL, settings: { EDGE_EVENTS_URL: 'https://a' } }, /EDGE_EVENTS_SECRET: expected a secret/],
  [
    { ...MINIMAL, settings: { EDGE_EVENTS_URL: 'https://a', EDGE_EVENTS_FORMAT: 'slack' }, secrets: { EDGE_EVENTS_URL: secret('x') } },
    /EDGE_EVENTS_URL: expected it either in settings or in secrets, got both/,
  ],
  [{ ...MINIMAL, tls: { clientCa: { secret: 'ca' } } }, /tls\.clientCa: expected tls\.certificates/],
  [{ ...MINIMAL, tls: { certificates: ['x'], clientCa: { secret: 'ca', configMap: 'ca' } } }, /either configMap or secret, got both/],
  [
    { ...MINIMAL, tls: { certificates: ['x'], listeners: ['main', 'admin'], clientCa: { secret: 'ca' } } },
    /probes of Kubernetes have no certificate/,
  ],
  [{ ...MINIMAL, tls: { certificates: ['x'], listeners: ['http'] } }, /\/tls\/listeners\/0.*value must be one of 'main', 'grpc', 'admin'/s],
  [{ ...MINIMAL, data: { stateFile: true, volume: 'claim' } }, /ReadWriteOnce serves one pod\. Set replicas: 1/],
  [{ ...MINIMAL, replicas: 1, autoscaling: { enabled: true }, data: { stateFile: true, volume: 'claim' } }, /ReadWriteOnce serves one pod/],
  [{ ...MINIMAL, autoscaling: { enabled: true, minReplicas: 4, maxReplicas: 3 } }, /expected at most maxReplicas \(3\), got 4/],
  [{ ...MINIMAL, autoscaling: { enabled: true }, resources: { requests: { cpu: null } } }, /resources\.requests\.cpu: expected a request/],
  [{ ...MINIMAL, data: { stateFile: true, claim: { name: 'mine' } } }, /data\.claim\.name: expected data\.volume: claim/],
  [{ ...MINIMAL, replicas: 1, data: { volume: 'claim' } }, /data\.volume: expected a file to keep in the claim/],
  [{ bundle: { configMap: 'x', restartOnChange: true } }, /bundle\.restartOnChange: expected bundle\.inline/],
  [
    { ...MINIMAL, mode: 'reverse_proxy', settings: { EDGE_BACKEND_URL: 'http://a', EDGE_GRPC_SOCKET: '/run/x' } },
    /settings\.EDGE_GRPC_SOCKET: expected it to be unset/,
  ],
  [{ ...MINIMAL, settings: { EDGE_SOCKET: '/run/x', EDGE_GRPC_SOCKET: '/run/x' } }, /expected a path other than EDGE_SOCKET \(\/run\/x\)/],
  [
    { ...MINIMAL, settings: { EDGE_HOST: '127.0.0.2', EDGE_ADMIN_HOST: '0.0.0.0' } },
    /main ports would listen on 127\.0\.0\.2, where no Service/,
  ],
  [{ ...MINIMAL, settings: { EDGE_REQUEST_TIMEOUT_MS: 59_999 } }, /no more than EDGE_REQUEST_TIMEOUT_MS \(59999\), got 60000/],
  [
    { ...MINIMAL, settings: { EDGE_BODY_MEMORY: 16_777_215 } },
    /EDGE_BODY_MEMORY: expected at least EDGE_MAX_BODY_BYTES \(16m\), got 16777215/,
  ],
  [{ ...MINIMAL, settings: { EDGE_MAX_BODY_BYTES: '256m', EDGE_BODY_MEMORY: '255M' } }, /\(256m\), got 255M/],
  [{ ...MINIMAL, tls: { certificates: ['x'], listeners: ['grpc'] } }, /tls\.listeners: expected a port that is open, got grpc/],
  [
    { ...MINIMAL, podLabels: { 'app.kubernetes.io/name': 'x' } },
    /podLabels: expected no label that the chart sets, got app\.kubernetes\.io\/name/,
  ],
  [{ ...MINIMAL, service: { externalTrafficPolicy: 'Local' } }, /expected service\.type NodePort or LoadBalancer/],
  [{ ...MINIMAL, resources: { limit: { cpu: 1 } } }, /\/resources.*'limit' not allowed/s],
  [{ ...MINIMAL, image: { digest: 'latest' } }, /\/image\/digest/],
  [{ ...MINIMAL, fullnameOverride: 'edge.limits' }, /\/fullnameOverride.*does not match pattern/s],
  [{ ...MINIMAL, replica: 3 }, /'replica' not allowed/],
  // What YAML makes of a line below which everything is a comment. Helm takes the default away, too.
  [{ ...MINIMAL, secrets: null }, /missing property 'secrets'/],
  [{ ...MINIMAL, tls: { clientCa: null } }, /\/tls': missing property 'clientCa'/],
]
