/** Failures by name. A status is another one. */
const NAMED_FAILURES = ['none', 'status', 'reset', 'hang', 'stall', 'garbage', 'error-event'] as const
const [LEAST_STATUS, MOST_STATUS] = [400, 599]

/** How a response fails: by one of these names, or with a status. */
export type Failure = (typeof NAMED_FAILURES)[number] | number

/** What goes wrong with a share of all requests. */
export interface Fault {
  readonly failure: Failure
  /** Above 0, and 1 for all. */
  readonly share: number
}

export const FAILURES_TEXT = `${NAMED_FAILURES.join(', ')} or a status`
const EXPECTED = `failures such as reset, 429:0.2 or hang:0.05, of ${NAMED_FAILURES.join(', ')} or a status from ${LEAST_STATUS} to ${MOST_STATUS}, with shares that add up to at most 1`

/** Reads `429:0.2,reset`. Returns what was expected if that is not it. */
export function readFaults(text: string): readonly Fault[] | { readonly expected: string } {
  const faults = text.split(',').map(readFault)
  const total = faults.reduce((sum, fault) => sum + (fault?.share ?? Number.NaN), 0)
  // Ten times a tenth is a little more than one.
  return total <= 1 + 1e-9 ? (faults as Fault[]) : { expected: EXPECTED }
}

function readFault(text: string): Fault | undefined {
  const [, name, shareText = '1'] = /^([a-z-]+|\d{3})(?::(\d(?:\.\d{1,9})?))?$/.exec(text) ?? []
  const failure = NAMED_FAILURES.find((known) => known === name) ?? statusIn(name)
  const share = Number(shareText)
  return failure === undefined || share <= 0 || share > 1 ? undefined : { failure, share }
}

function statusIn(name: string | undefined): number | undefined {
  const status = Number(name)
  return status >= LEAST_STATUS && status <= MOST_STATUS ? status : undefined
}

/** Chooses what goes wrong with each request. The same seed gives the same failures in the same order of requests. */
export class FaultDice {
  #state: number

  constructor(seed: number = Math.trunc(Math.random() * 2 ** 32)) {
    this.#state = seed
  }

  /** Draws once for each call, whatever the faults are, so that the next request's failure does not depend on them. */
  draw(faults: readonly Fault[]): Failure | undefined {
    let rest = this.#next()
    for (const { failure, share } of faults) {
      if (rest < share) return failure
      rest -= share
    }
    return undefined
  }

  /** A number from 0 to below 1, of a Weyl sequence whose bits are mixed: good enough for shares, and the same everywhere. */
  #next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
}
