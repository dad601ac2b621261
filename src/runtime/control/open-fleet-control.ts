import type { Logger } from 'pino'
import type { Clock } from '../../clock.ts'
import type { ServerConfig } from '../../config/config.ts'
import type { OverrideMap } from '../../overrides/override-map.ts'
import { counterProbe } from '../../store/redis/counter-probe.ts'
import { counterScript } from '../../store/redis/counter-script.ts'
import type { Deadlines } from '../../store/redis/link/deadlines.ts'
import type { RedisAddress } from '../../store/redis/link/redis-address.ts'
import { RedisLink } from '../../store/redis/link/redis-link.ts'
import { FleetControl } from './fleet-control.ts'
import type { FleetNews } from './fleet-news.ts'

export interface OpenFleetControlParts {
  readonly config: ServerConfig
  readonly map: OverrideMap
  readonly clock: Clock
  readonly logger: Logger
  /** Real time unless a test holds it. */
  readonly deadlines?: Deadlines | undefined
  readonly announce: (news: FleetNews, all: FleetNews) => void
}

/** How long an operator waits for Redis. No request of a client does. */
const TIMEOUT_MS = 1000

/** The main thread's part in a fleet, on a connection of its own. Workers report whether Redis can be reached. */
export function openFleetControl(address: RedisAddress, { config, deadlines, ...parts }: OpenFleetControlParts): FleetControl {
  const { redisPrefix: prefix, redisTimeoutMs } = config
  const script = counterScript()
  const link = new RedisLink({
    address,
    prefix,
    timeoutMs: Math.max(redisTimeoutMs, TIMEOUT_MS),
    probe: (key) => counterProbe(script, key),
    deadlines,
    listener: { onNode() {}, onRoundTrip() {}, onError() {}, onCircuit() {} },
  })
  return new FleetControl({ ...parts, link, prefix })
}
