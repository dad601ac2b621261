import { join } from 'node:path'
import { replaceFile } from '../bundles/bundle-file.ts'
import type { Cli } from '../service/cli.ts'
import { type Answer, ask, type Fields } from '../service/http.ts'
import { type Environment, type Owner, scratchDirectory, serving, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { original } from '../service/wire.ts'
import { until } from '../until.ts'

export interface FleetOptions {
  readonly size: number
  readonly bundle: object
  /** `EDGE_REDIS_URL` and the like, for all of them. */
  readonly env?: Environment
  /** For one of them alone, by its place. */
  readonly ownEnv?: Readonly<Record<number, Environment>>
}

/** So many real `edge` processes on one bundle file, each on a port that it keeps, for as long as the test runs. */
export async function runningFleet({ size, bundle, env = {}, ownEnv = {} }: FleetOptions, owner: Owner = thisTest): Promise<Fleet> {
  const bundlePath = join(await scratchDirectory(owner), 'bundle.json')
  await replaceFile(bundlePath, JSON.stringify(bundle))
  const ports: number[] = []
  for (let i = 0; i < size; i++) ports.push(await serverPort())
  const common = { EDGE_WORKERS: '1', EDGE_STORE_SIZE: '1m', EDGE_CONFIG_FILE: bundlePath, ...env }
  const instances = ports.map((port, place) => new Instance(port, { ...common, ...ownEnv[place] }, owner))
  await Promise.all(instances.map((instance) => instance.start()))
  return new Fleet(instances, bundlePath)
}

export class Fleet {
  readonly instances: readonly Instance[]
  readonly bundlePath: string

  constructor(instances: readonly Instance[], bundlePath: string) {
    this.instances = instances
    this.bundlePath = bundlePath
  }

  /** Replaces the bundle file that all look at. */
  publish(bundle: object): Promise<void> {
    return replaceFile(this.bundlePath, JSON.stringify(bundle))
  }

  /** The same question to each of them at once. */
  decideAll(fields: Fields = [], uri = '/'): Promise<Answer[]> {
    return Promise.all(this.instances.map((instance) => instance.decide(fields, uri)))
  }
}

/** One place in a fleet, and the process that holds it now. */
export class Instance {
  readonly port: number
  readonly #env: Environment
  readonly #owner: Owner
  readonly #processes: Cli[] = []

  constructor(port: number, env: Environment, owner: Owner) {
    this.port = port
    this.#env = env
    this.#owner = owner
  }

  /** The process that was started last. */
  get cli(): Cli {
    return this.#processes.at(-1)!
  }

  /** What all its processes logged, the dead ones too. */
  get log(): Record<string, unknown>[] {
    return this.#processes.flatMap(({ log }) => log)
  }

  /** The log's entries of this kind. */
  logged(name: string): Record<string, unknown>[] {
    return this.log.filter(({ event }) => event === name)
  }

  /** Starts a process. Resolves when it serves decisions. */
  async start(env: Environment = {}): Promise<void> {
    const cli = await serving({ ...this.#env, EDGE_PORT: String(this.port), ...env }, [], this.#owner)
    if (!cli.stdout.includes('listens')) throw new Error(`edge did not start: ${cli.stderr}`)
    this.#processes.push(cli)
    // Where there is an admin port, it is there.
    const port = Number(this.#env['EDGE_ADMIN_PORT'] ?? this.port)
    await until(async () => (await ask(port, 'GET', '/readyz')).status === 200)
  }

  /** As a crash does: nothing is given back or said. */
  async kill(): Promise<void> {
    await this.cli.stop('SIGKILL')
  }

  /** As a deployment does. Returns its exit status. */
  stop(): Promise<number> {
    return this.cli.stop()
  }

  async restart(env: Environment = {}): Promise<void> {
    await this.kill()
    await this.start(env)
  }

  decide(fields: Fields = [], uri = '/'): Promise<Answer> {
    return ask(this.port, 'POST', '/v1/decision', original(uri, ...fields))
  }
}
