import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import { isUnixSocket, type ListenAddress, placeOf } from '../listen/listen-address.ts'
import type { ListenerName } from '../listen/listeners.ts'
import { describeRedisAddress } from '../store/redis/link/redis-address.ts'
import { VERSION } from '../version.ts'

/** Of the debug secret: shorter ones are warned of. */
const SAFE_SECRET_CHARACTERS = 16

type Addresses = ReadonlyMap<ListenerName, ListenAddress>

/** Says that the service accepts requests and where, and what of its settings an operator should think about. */
export function logStarted(config: ServerConfig, addresses: Addresses, logger: Logger): void {
  const { mode, workers, debugSessionSecret } = config
  const redis = config.redis && { redis: describeRedisAddress(config.redis), redis_mode: config.redisMode }
  logger.info(
    { event: 'started', version: VERSION, mode, ...addressFields(addresses), workers, pid: process.pid, ...redis },
    'edge started',
  )
  if (mode === 'reverse_proxy' && !addresses.has('admin')) {
    logger.warn(
      { event: 'admin_endpoints_exposed' },
      'clients can reach /livez, /readyz, /metrics and the debug endpoints; set EDGE_ADMIN_PORT to move them to another port',
    )
  }
  // By what people count as characters, not by bytes.
  if (debugSessionSecret !== undefined && [...debugSessionSecret].length < SAFE_SECRET_CHARACTERS) {
    logger.warn(
      { event: 'debug_secret_short', at_least: SAFE_SECRET_CHARACTERS },
      `EDGE_DEBUG_SESSION_SECRET has fewer than ${SAFE_SECRET_CHARACTERS} characters and can be guessed; create a better one with openssl rand -base64 32`,
    )
  }
}

/** `port` is the main listener's. */
function addressFields(addresses: Addresses): Record<string, number | string> {
  const nameOf = (name: ListenerName, address: ListenAddress): string => {
    if (isUnixSocket(address)) return name
    return name === 'main' ? 'port' : `${name}_port`
  }
  return Object.fromEntries(Array.from(addresses, ([name, address]) => [nameOf(name, address), placeOf(address)]))
}
