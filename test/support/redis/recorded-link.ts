import { createHash } from 'node:crypto'
import type { Script } from '../../../src/store/redis/link/call.ts'
import { IDLE_MS } from '../../../src/store/redis/link/circuit.ts'
import { parseRedisAddress } from '../../../src/store/redis/link/redis-address.ts'
import { RedisLink } from '../../../src/store/redis/link/redis-link.ts'
import { counterProbe } from '../../../src/store/redis/scripts.ts'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { HeldDeadlines } from './held-deadlines.ts'

/** Increments a key and returns the count. */
const COUNT_UP: Script = scriptOf("return redis.call('INCR', KEYS[1]) .. ''")
/** Does the same, as another script. */
const COUNT_UP_TOO: Script = scriptOf("return redis.call('INCR', KEYS[1]) .. '' -- too")

export interface RecordedLink {
  readonly link: RedisLink
  /** Nothing is given up before they pass. */
  readonly deadlines: HeldDeadlines
  /** "kind node: message" of each error. */
  readonly errors: string[]
  /** "node opened: reason" and "node closed: reason". */
  readonly circuits: string[]
  roundTrips: number
  countUp(key: string): Promise<string>
  countUpToo(key: string): Promise<string>
}

/** A link for as long as the test runs, and all that it told. Its probes count up keys of their own, in calls as long as the real ones. */
export function openLink(url: string, timeoutMs = 1000, owner: Owner = thisTest, prefix = 'edge:', idleMs = IDLE_MS): RecordedLink {
  const errors: string[] = []
  const circuits: string[] = []
  const deadlines = new HeldDeadlines()
  const link = new RedisLink({
    address: parseRedisAddress(url),
    timeoutMs,
    prefix,
    idleMs,
    deadlines,
    probe: (key) => ({ ...counterProbe(COUNT_UP, key), isValidReply: isCount }),
    listener: {
      onRoundTrip: () => {
        recorded.roundTrips += 1
      },
      onError: (kind, node, message) => errors.push(`${kind} ${node}: ${message}`),
      onNode() {},
      onCircuit: (node, isOpen, reason) => circuits.push(`${node} ${isOpen ? 'opened' : 'closed'}: ${reason}`),
    },
  })
  const recorded: RecordedLink = {
    link,
    deadlines,
    errors,
    circuits,
    roundTrips: 0,
    countUp: (key) => link.run(COUNT_UP, [key], []) as Promise<string>,
    countUpToo: (key) => link.run(COUNT_UP_TOO, [key], []) as Promise<string>,
  }
  owner.onTestFinished(() => link.close())
  return recorded
}

/** One that has been of use. */
export async function usableLink(url: string, timeoutMs = 1000, owner: Owner = thisTest, idleMs = IDLE_MS): Promise<RecordedLink> {
  const recorded = openLink(url, timeoutMs, owner, undefined, idleMs)
  await until(() => recorded.link.isUsable(recorded.link.groupOf('edge:a')))
  return recorded
}

function isCount(reply: unknown): boolean {
  return typeof reply === 'string' && /^\d+$/.test(reply)
}

function scriptOf(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
