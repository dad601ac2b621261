import type { Deadlines, Script } from './call.ts'
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

/** A script call that does what decisions do, to find out whether a node can serve them. */
export interface Probe {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
  /** Whether the script could have returned this. */
  readonly isValidReply: (reply: unknown) => boolean
}
