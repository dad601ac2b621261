import type { Deadlines, Script, ScriptArgument } from './call.ts'
import type { RedisAddress } from './redis-address.ts'

export interface LinkOptions {
  readonly address: RedisAddress
  readonly timeoutMs: number
  /** Prefix of all keys. */
  readonly prefix: string
  readonly listener: LinkListener
  /** Returns a probe that uses this key, which the node in question serves. */
  readonly probe: (key: string) => Probe
  /** How long a node may be without replies before it is probed; IDLE_MS by default. */
  readonly idleMs?: number
  /** Real time by default; tests pass their own. */
  readonly deadlines?: Deadlines | undefined
}

/** Receives the events of the connections. `node` is a host and port, or the master's name at its sentinels. */
export interface LinkListener {
  /** Called when a node was found, which has a circuit from now on. */
  onNode(node: string): void
  onRoundTrip(seconds: number): void
  onError(kind: 'timeout' | 'connection' | 'reply', node: string, message: string): void
  /** `reason` says why it opened or closed. */
  onCircuit(node: string, isOpen: boolean, reason: string): void
}

/** A script call that does what decisions do, which shows whether a node can serve them. */
export interface Probe {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly ScriptArgument[]
  /** Returns whether the script could have returned this. */
  readonly isValidReply: (reply: unknown) => boolean
}
