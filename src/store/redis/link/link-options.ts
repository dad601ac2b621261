import type { Deadlines } from './deadlines.ts'
import type { Probe } from './probe.ts'
import type { RedisAddress } from './redis-address.ts'

export interface LinkOptions {
  readonly address: RedisAddress
  readonly timeoutMs: number
  /** Of all keys. */
  readonly prefix: string
  readonly listener: LinkListener
  /** The probe for a key of the node in question. */
  readonly probe: (key: string) => Probe
  /** Real time unless a test holds it. */
  readonly deadlines?: Deadlines | undefined
}

/** Called on what happens to the connections. `node` is a host and port, or the master's name at its sentinels. */
export interface LinkListener {
  /** A node was found, and has a circuit from now on. */
  onNode(node: string): void
  onRoundTrip(seconds: number): void
  onError(kind: 'timeout' | 'connection' | 'reply', node: string, message: string): void
  /** `reason`: why it opened or closed. */
  onCircuit(node: string, isOpen: boolean, reason: string): void
}
