import type { Vitals } from './edge-process.ts'
import type { Findings } from './findings.ts'

const MIB = 2 ** 20
/** Objects that are in use after a garbage collection: what is more than compiled code and caches has been kept for nobody. */
const MAX_HEAP_GROWTH = 6 * MIB
/** V8 and the C library give memory back when they like. Only what is more than a young generation for each thread can be told from that. */
const MAX_RESIDENT_GROWTH = 64 * MIB
/** A worker that is replaced takes a spare descriptor of the port and another is fetched; which of them is there is a matter of moments. */
const MAX_DESCRIPTOR_CHANGE = 2

/** What a process holds in its quiet moments, round after round. */
export class Growth {
  #life = 0
  #series: Vitals[] = []

  note(life: number, vitals: Vitals): void {
    if (life !== this.#life) this.#series = []
    this.#life = life
    this.#series.push(vitals)
  }

  /** Compares the first rounds after the first, which warms up, with the last ones. */
  check(findings: Findings): void {
    const [, ...warm] = this.#series
    const part = Math.ceil(warm.length / 3)
    const [first, last] = [warm.slice(0, part), warm.slice(-part)]
    if (warm.length < 2) return
    const growth = (of: (vitals: Vitals) => number): number => median(last.map(of)) - median(first.map(of))
    findings.atMost(`growth of the heap in MiB over ${warm.length} rounds, ${this}`, growth(heap) / MIB, MAX_HEAP_GROWTH / MIB)
    findings.atMost(`growth of the memory in MiB over ${warm.length} rounds, ${this}`, growth(resident) / MIB, MAX_RESIDENT_GROWTH / MIB)
    for (const { descriptors } of warm) {
      const [{ descriptors: before }] = warm as [Vitals]
      if (descriptors === undefined || before === undefined) continue
      findings.within(`descriptors, ${this}`, descriptors, before - MAX_DESCRIPTOR_CHANGE, before + MAX_DESCRIPTOR_CHANGE)
    }
  }

  toString(): string {
    const list = (of: (vitals: Vitals) => number | undefined): string => thinned(this.#series.map(of)).join(' ')
    const descriptors = list(({ descriptors }) => descriptors)
    return `heap ${list((vitals) => round(heap(vitals)))} MiB, resident ${list((vitals) => Math.round(resident(vitals) / MIB))} MiB, descriptors ${descriptors}`
  }
}

function heap({ heapBytes }: Vitals): number {
  return heapBytes
}

function resident({ residentBytes }: Vitals): number {
  return residentBytes
}

function round(bytes: number): number {
  return Math.round((bytes / MIB) * 10) / 10
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
}

/** A long series by some of its members, the first and the last among them. */
function thinned<Item>(series: readonly Item[]): Item[] {
  const step = Math.max(1, Math.ceil(series.length / 12))
  return series.filter((_, i) => i % step === 0 || i === series.length - 1)
}
