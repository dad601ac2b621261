/** A Lua script that Redis runs. */
export interface Script {
  readonly text: string
  /** SHA-1 of the text, as EVALSHA wants it. */
  readonly sha: string
}
