/** Which counters a decision took from: this process's own, those that a fleet shares, or none, because nothing was taken. */
export type TakenFrom = 'local' | 'shared' | 'none'

/** When and where something was taken, by the clock of those counters. A settlement goes back to them. */
export interface Taken {
  /** In the window that it was taken from. */
  readonly wallMs: number
  /** Later than every reset before the take, and no later than any after it, even if the clock was set back. */
  readonly momentMs: number
  readonly from: TakenFrom
  /** Nobody knows which instance took it: all of them correct their own counts. */
  readonly isTakerUnknown?: boolean
}
