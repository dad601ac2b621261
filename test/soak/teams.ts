import { bucketRule, type PolicyText, policy } from '../support/bundles/bundles.ts'
import { decisionBytes, original } from '../support/service/wire.ts'
import type { DecisionClient } from './decision-client.ts'
import type { Findings } from './findings.ts'

const CALLERS = 3
const CALLER_BURST = 30
/** Less than its callers have together, so that both limits are met. */
const TEAM_BURST = 70
type Kind = 'team' | 'leaving'
const KINDS: readonly Kind[] = ['team', 'leaving']

/**
 * Limits that never refill within a run, for a caller and for its team: each token is admitted once, or somebody miscounts. Teams that
 * leave have a policy of their own, so that the others' decisions can be counted without a doubt.
 */
export function teamPolicies(version: number): PolicyText[] {
  // Which of them refills less is a change that keeps the counters. A token takes eleven days.
  const perSecond = 1e-6 * (1 + (version % 3) / 10)
  const caller = bucketRule('caller', ['header:x-caller'], CALLER_BURST, perSecond)
  const team = bucketRule('team', ['header:x-team'], TEAM_BURST, perSecond)
  // Would reject nearly all of them, and must not change a thing.
  const shadow = bucketRule('shadow', ['header:x-team'], 2, perSecond)
  return KINDS.flatMap((kind) => [
    policy(kind, { selector: { pathPrefix: `/${kind}` }, rules: version % 2 === 0 ? [caller, team] : [team, caller] }),
    policy(`${kind} in shadow`, { mode: 'shadow', selector: { pathPrefix: `/${kind}` }, rules: [shadow] }),
  ])
}

export class TeamCaller {
  /** Questions that were let through, were not, and of which nobody knows. */
  readonly seen = { admitted: 0, rejected: 0, unknown: 0, odd: 0 }
  /** What each instance has admitted, by its port. */
  readonly admittedBy = new Map<number, number>()
  readonly #bytes: Buffer

  constructor(kind: Kind, team: string, name: string) {
    this.#bytes = decisionBytes(original(`/${kind}`, ['X-Team', team], ['X-Caller', name]))
  }

  bytes(count: number): Buffer {
    return Buffer.concat(new Array(count).fill(this.#bytes))
  }

  /** Returns how many were admitted. */
  async askBy(client: DecisionClient, count: number): Promise<number> {
    const statuses = await client.ask(this.bytes(count), count)
    const admitted = statuses.filter((status) => status === 200).length
    this.seen.admitted += admitted
    this.admittedBy.set(client.port, (this.admittedBy.get(client.port) ?? 0) + admitted)
    this.seen.rejected += statuses.filter((status) => status === 429).length
    this.seen.unknown += statuses.filter((status) => status === undefined).length
    this.seen.odd += statuses.filter((status) => status !== undefined && status !== 200 && status !== 429).length
    return admitted
  }
}

interface TeamTolerance {
  readonly times?: number
  readonly timesEach?: number
  readonly lost?: number
}

/** A few callers who have a limit each and one together. */
export class Team {
  readonly name: string
  readonly callers: readonly TeamCaller[]
  /** They ask, and go away before the answer is there. */
  readonly leaves: boolean
  /** The number of saves when it had nothing left; undefined once it is sure that this was saved. */
  drainedAtSave: number | undefined

  constructor(name: string, leaves = false) {
    this.name = name
    this.leaves = leaves
    this.callers = Array.from({ length: CALLERS }, (_, i) => new TeamCaller(this.kind, name, `${name}.${i}`))
  }

  /** How the ids of the policies begin that count its decisions. */
  get kind(): Kind {
    return this.leaves ? 'leaving' : 'team'
  }

  /** Questions of its callers in which a field comes twice: they are refused, and take nothing. */
  get refusedHeads(): string[] {
    const [team, caller] = [
      ['X-Team', this.name],
      ['X-Caller', `${this.name}.0`],
    ] as const
    const twice = [
      [team, ['x-team', 'another'], caller],
      [team, caller, ['X-CALLER', '']],
    ] as const
    return twice.map((fields) => decisionBytes(original(`/${this.kind}`, ...fields)).toString('latin1'))
  }

  get seen(): TeamCaller['seen'] {
    const sum = { admitted: 0, rejected: 0, unknown: 0, odd: 0 }
    for (const { seen } of this.callers) for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += seen[key]
    return sum
  }

  /** Takes what is left, from whoever answers. Returns how much that was. */
  async drain(clients: readonly DecisionClient[]): Promise<number> {
    let admitted = 0
    for (const client of clients) for (const caller of this.callers) admitted += await caller.askBy(client, CALLER_BURST + 1)
    return admitted
  }

  /**
   * When nothing is left. Tokens may have been handed out `times` over, by each instance `timesEach`, and `lost` of them may have
   * gone to nobody. Returns whether there was but one right number.
   */
  check(findings: Findings, { times = 1, timesEach = 1, lost = 0 }: TeamTolerance): 'exact' | 'bounded' {
    const { admitted, unknown, odd } = this.seen
    findings.equal(`answers to ${this.name} that are neither 200 nor 429`, odd, 0)
    findings.within(`admitted of team ${this.name}, ${unknown} answers lost`, admitted, TEAM_BURST - unknown - lost, times * TEAM_BURST)
    for (const { seen } of this.callers) findings.atMost(`admitted of a caller of ${this.name}`, seen.admitted, times * CALLER_BURST)
    const ports = new Set(this.callers.flatMap(({ admittedBy }) => [...admittedBy.keys()]))
    for (const port of ports) {
      const byOne = this.callers.reduce((sum, { admittedBy }) => sum + (admittedBy.get(port) ?? 0), 0)
      findings.atMost(`admitted of team ${this.name} by one instance`, byOne, timesEach * TEAM_BURST)
    }
    return times === 1 && unknown + lost === 0 ? 'exact' : 'bounded'
  }
}
