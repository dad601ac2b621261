import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { Random } from '../support/random/random.ts'
import type { Owner } from '../support/service/running.ts'
import { CleanUp } from './clean-up.ts'
import type { EdgeProcess } from './edge-process.ts'
import { Findings, SoakFailure } from './findings.ts'
import { Growth } from './growth.ts'

/** One of the rounds of a scenario: load, something that goes wrong meanwhile, and then what must hold. */
export interface Round {
  readonly number: number
  readonly random: Random
  readonly findings: Findings
  /** How long to load. */
  readonly loadMs: number
  /** Waits, unless all is to end. */
  rest(ms: number): Promise<void>
}

export interface Scenario {
  readonly edges: readonly EdgeProcess[]
  /** What may go wrong, each in a round of its own; the first round is calm. The same name twice comes twice as often. */
  readonly troubles: readonly string[]
  /** Those that start a process or a worker anew: they come in the first part only, for memory can be compared within one life. */
  readonly endings?: readonly string[]
  /** Loads, checks, and is done when all is quiet again. */
  round(round: Round, trouble: string): Promise<void>
  /** What was done so far, in words. */
  summary(): string
}

export interface Bench extends Owner {
  readonly random: Random
  /** For files, as long as the scenario runs. */
  readonly directory: string
}

const SCENARIO_MS = Number(process.env['EDGE_SOAK_SCENARIO_MS'] ?? 60_000)
const SEED = Number(process.env['EDGE_SOAK_SEED'] ?? 1)
const LOAD_MS = 3500
/** A first one, to warm up, and two to compare. */
const MIN_ROUNDS = 3
/** The part of the time in which processes and workers may end. */
const ENDINGS_SHARE = 0.5
/** What checks and waits may cost beyond the time that was given. */
const SPARE_MS = 600_000

/** Runs a scenario round by round until its time is over, and reports it in a line. */
export function soak(name: string, begin: (bench: Bench) => Promise<Scenario>): void {
  test(name, { timeout: 3 * SCENARIO_MS + SPARE_MS }, async ({ signal, onTestFinished }) => {
    const startMs = performance.now()
    const cleanUp = new CleanUp()
    onTestFinished(() => cleanUp.run())
    const directory = await mkdtemp(join(tmpdir(), 'edge-soak-'))
    cleanUp.onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const random = new Random(SEED)
    const scenario = await begin({ onTestFinished: (end) => cleanUp.onTestFinished(end), random, directory })
    const growths = scenario.edges.map(() => new Growth())
    const findings = new Findings()
    const deck = new Deck(scenario, random)
    let rounds = 0
    while (!signal.aborted && (rounds < MIN_ROUNDS || performance.now() - startMs < SCENARIO_MS)) {
      const trouble = rounds === 0 ? 'calm' : deck.draw((performance.now() - startMs) / SCENARIO_MS < ENDINGS_SHARE)
      const rest = (ms: number): Promise<void> => sleep(ms, undefined, { signal }).catch(() => {})
      await scenario.round({ number: rounds, random, findings, loadMs: random.between(0.7, 1.3) * LOAD_MS, rest }, trouble)
      if (signal.aborted) break
      for (const [i, edge] of scenario.edges.entries()) {
        growths[i]!.note(edge.lives, await edge.vitals())
        edge.readLog(findings)
      }
      rounds++
      failOn(findings, `in round ${rounds} (${trouble})`)
    }
    if (signal.aborted) throw new SoakFailure('interrupted')
    for (const growth of growths) growth.check(findings)
    for (const edge of scenario.edges) await edge.stop(findings)
    const seconds = Math.round((performance.now() - startMs) / 1000)
    const memory = growths.map(String).join(' | ')
    console.log(`${name}, seed ${SEED}: ${rounds} rounds in ${seconds} s, ${scenario.summary()}; ${findings.checks} checks; ${memory}`)
    failOn(findings, 'at the end')
  })
}

function failOn({ all }: Findings, when: string): void {
  if (all.length > 0) throw new SoakFailure(`${when}, seed ${SEED}:\n  ${all.slice(0, 20).join('\n  ')}`)
}

/** Troubles in an order of chance, each once before any comes again. */
class Deck {
  readonly #scenario: Scenario
  readonly #random: Random
  #left: string[] = []

  constructor(scenario: Scenario, random: Random) {
    this.#scenario = scenario
    this.#random = random
  }

  draw(mayEnd: boolean): string {
    const { troubles, endings = [] } = this.#scenario
    if (!mayEnd) this.#left = this.#left.filter((trouble) => !endings.includes(trouble))
    if (this.#left.length === 0) this.#left = ['calm', ...troubles, ...(mayEnd ? endings : [])]
    // There is little time for endings, so they come first.
    const wanted = this.#left.some((trouble) => endings.includes(trouble)) ? endings : this.#left
    const drawn = this.#random.oneOf(this.#left.filter((trouble) => wanted.includes(trouble)))
    this.#left.splice(this.#left.indexOf(drawn), 1)
    return drawn
  }
}
