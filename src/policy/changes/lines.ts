/** How many lines a change may have, and how many it would have. */
export class Lines {
  readonly #max: number
  taken = 0
  leftOut = 0

  constructor(max: number) {
    this.#max = Math.max(max, 0)
  }

  get left(): number {
    return this.#max - this.taken
  }

  get count(): number {
    return this.taken + this.leftOut
  }

  /** Returns whether there is room for one more. */
  take(): boolean {
    const isTaken = this.left > 0
    if (isTaken) this.taken++
    else this.leftOut++
    return isTaken
  }

  add({ taken, leftOut }: Lines): void {
    this.taken += taken
    this.leftOut += leftOut
  }
}
