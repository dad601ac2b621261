import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type Clock, systemClock } from '../../../src/time/clock.ts'
import { replaceFile } from '../bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import type { Cli } from '../service/cli.ts'
import type { Edge } from '../service/edge.ts'
import { type Answer, ask } from '../service/http.ts'
import { metric } from '../service/metrics.ts'
import { type Environment, type Owner, running, scratchDirectory, serving } from '../service/running.ts'
import { original } from '../service/wire.ts'

/** What each caller has at first. */
export const BURST = 100
/** Tokens a second: in the time that a test takes, not one comes back. */
export const HARDLY_ANY = 0.001

const PER_CALLER = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], BURST, HARDLY_ANY)] }))

/** A bundle and a state file, and the services that work on them, mostly one after the other: in this process or in processes of their own. */
export class KeptCounters {
  readonly bundlePath: string
  readonly statePath: string
  readonly #owner: Owner
  readonly #env: Environment

  private constructor(directory: string, owner: Owner) {
    this.bundlePath = join(directory, 'bundle.json')
    this.statePath = join(directory, 'state', 'counters')
    this.#owner = owner
    this.#env = { EDGE_WORKERS: '1', EDGE_STORE_SIZE: '1m', EDGE_CONFIG_FILE: this.bundlePath, EDGE_STATE_FILE: this.statePath }
  }

  /** For as long as the test runs. */
  static async of(owner: Owner, content: object = PER_CALLER): Promise<KeptCounters> {
    const kept = new KeptCounters(await scratchDirectory(owner), owner)
    await mkdir(kept.stateDirectory)
    await kept.publish(content)
    return kept
  }

  /** Nothing but the state file is in here. */
  get stateDirectory(): string {
    return join(this.statePath, '..')
  }

  publish(content: object): Promise<void> {
    return replaceFile(this.bundlePath, JSON.stringify(content))
  }

  /** A service in this process. */
  run(env: Environment = {}, clock: Clock = systemClock): Promise<Edge> {
    return running({ env: { ...this.#env, ...env }, clock }, this.#owner)
  }

  /** A process that must come up. */
  async serve(env: Environment = {}): Promise<Cli> {
    const cli = await serving({ ...this.#env, ...env }, [], this.#owner)
    if (!cli.stdout.includes('listens')) throw new Error(`edge did not start: ${cli.stderr}`)
    return cli
  }

  /** What a process that must not come up says of it. */
  async refusal(env: Environment = {}): Promise<string> {
    const cli = await serving({ ...this.#env, ...env }, [], this.#owner)
    expect(cli.stdout).toBe('')
    expect(await cli.exited).toBe(1)
    const [heading, problem, ...rest] = cli.stderr.split('\n').filter((line) => !line.startsWith('{'))
    expect([heading, rest]).toEqual(['edge cannot start:', ['']])
    return problem!.trim()
  }
}

interface Asked {
  readonly port: number
}

export function decide({ port }: Asked, name: string, value: string): Promise<Answer> {
  return ask(port, 'POST', '/v1/decision', original('/', [name, value]))
}

/** Asks so many times, each of which must be allowed, and returns what is left in the end. */
export async function take(asked: Asked, times = 1, value = 'alice', name = 'X-Caller'): Promise<number> {
  let remaining = Number.NaN
  for (let i = 0; i < times; i++) {
    const { status, headers } = await decide(asked, name, value)
    expect(status).toBe(200)
    remaining = Number(headers['ratelimit-remaining'])
  }
  return remaining
}

export function saves({ port }: Asked, result = 'saved'): Promise<number> {
  return metric(port, `edge_state_saves_total{result="${result}"}`)
}
