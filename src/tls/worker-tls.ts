import { createPrivateKey, sign } from 'node:crypto'
import type { ServerConfig } from '../config/config.ts'
import type { ConnectionSecurity } from '../listen/admitted-connections.ts'
import { type ListenerName, listener } from '../listen/listeners.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { FAILURE_REASONS, type HandshakeFailure } from './handshake-failures.ts'
import { HandshakePlaces } from './handshake-places.ts'
import type { TlsMaterial } from './tls-files.ts'
import { TlsContexts, TlsListener } from './tls-listener.ts'

type TlsSettings = Pick<ServerConfig, 'tlsListeners' | 'tlsClientAuth' | 'headersTimeoutMs'>

/** What a handshake takes besides its signature: the key exchange, and the objects of a connection. */
const REST_MS = 0.5
/** The fastest of these counts, because a busy machine makes each of them seem slow. */
const TRIALS = 3

/** TLS in a worker: its listeners, and the certificates that the main thread has sent. */
export class WorkerTls {
  readonly #settings: TlsSettings
  readonly #failures: CounterFamily
  readonly #places: HandshakePlaces
  readonly #operatorPlaces = HandshakePlaces.forOperators()
  readonly #listeners: TlsListener[] = []

  constructor(settings: TlsSettings, metrics: MetricMemory) {
    this.#settings = settings
    this.#places = HandshakePlaces.forClients(settings.tlsClientAuth === 'require')
    this.#failures = new CounterFamily(metrics, 'edge_tls_handshake_failures_total')
  }

  /** Uses these certificates for new connections. The first ones come before any listener opens. */
  note(material: TlsMaterial): void {
    const costMs = REST_MS + Math.max(...material.pairs.map(({ key }) => signatureMs(key)))
    for (const places of [this.#places, this.#operatorPlaces]) places.costMs = costMs
    const contexts = new TlsContexts(material)
    for (const security of this.#listeners) security.use(contexts)
  }

  /** Returns what secures the connections of a listener; undefined if they stay plain. */
  of(name: ListenerName): ConnectionSecurity | undefined {
    const { tlsListeners, tlsClientAuth, headersTimeoutMs } = this.#settings
    if (!(tlsListeners as readonly ListenerName[]).includes(name)) return undefined
    const failures = new Map(FAILURE_REASONS.map((reason) => [reason, this.#failures.series(name, reason)]))
    const options = {
      protocol: name === 'grpc' ? 'h2' : 'http/1.1',
      requiresClientCertificate: tlsClientAuth === 'require',
      handshakeMs: headersTimeoutMs,
      places: listener(name).connections === 'reserved' ? this.#operatorPlaces : this.#places,
      onFailure: (reason: HandshakeFailure) => void failures.get(reason)!.count++,
    } as const
    const security = new TlsListener(options)
    this.#listeners.push(security)
    return security
  }
}

/** Measures how long a signature with this key takes. */
function signatureMs(pem: string): number {
  const key = createPrivateKey(pem)
  const algorithm = key.asymmetricKeyType === 'ed25519' || key.asymmetricKeyType === 'ed448' ? null : 'sha256'
  const trials = Array.from({ length: TRIALS }, () => {
    const startMs = performance.now()
    sign(algorithm, Buffer.alloc(32), key)
    return performance.now() - startMs
  })
  return Math.min(...trials)
}
