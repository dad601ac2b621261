const MAX_SHOWN = 5

/** Where something cannot be read, and why. */
export interface UnreadablePlace {
  readonly file: string
  /** A line's number, `entry 3`, or END. */
  readonly place: string
  readonly why: string
}

/** Where reading a log ended early. */
export const END_OF_LINE = 'end'

/** Counts the lines and entries that cannot be read, and keeps the first ones, and every log that was not read to its end. */
export class UnreadableLines {
  count = 0
  readonly shown: UnreadablePlace[] = []

  add(file: string, place: string, why: string): void {
    if (++this.count <= MAX_SHOWN || place === END_OF_LINE) this.shown.push({ file, place, why })
  }
}
