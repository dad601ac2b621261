const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 1000
const MAX_COUNT = 16
const FORGET_MS = 60_000

const COUNT = 0
const LAST_MS = 1

/** Wrong secrets of late, in memory that all threads share. Two that come at once may count as one. */
export class WrongSecrets {
  readonly #cells: Float64Array

  constructor(buffer: SharedArrayBuffer) {
    this.#cells = new Float64Array(buffer)
  }

  /** One more. Answers how long its answer should wait: the first one not at all. */
  add(nowMs: number): number {
    const cells = this.#cells
    const earlier = nowMs - cells[LAST_MS]! > FORGET_MS ? 0 : cells[COUNT]!
    cells[LAST_MS] = nowMs
    cells[COUNT] = Math.min(earlier + 1, MAX_COUNT)
    return earlier === 0 ? 0 : Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (earlier - 1))
  }

  forget(): void {
    this.#cells[COUNT] = 0
  }
}

export function newWrongSecretsBuffer(): SharedArrayBuffer {
  return new SharedArrayBuffer(16)
}
