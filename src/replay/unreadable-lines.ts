const MAX_SHOWN = 5

/** Where something cannot be read, and why. */
export interface UnreadablePlace {
  readonly file: string
  /** A line's number, `entry 3`, or `end`. */
  readonly place: string
  readonly why: string
}

/** Counts the lines and entries that cannot be read, and keeps the first ones. */
export class UnreadableLines {
  count = 0
  readonly first: UnreadablePlace[] = []

  add(file: string, place: string, why: string): void {
    if (++this.count <= MAX_SHOWN) this.first.push({ file, place, why })
  }
}
