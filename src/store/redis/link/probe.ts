import type { Script } from './script.ts'

/** A script call that does what decisions do, to find out whether a node can serve them. */
export interface Probe {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
  /** Whether the script could have returned this. */
  readonly isValidReply: (reply: unknown) => boolean
}
