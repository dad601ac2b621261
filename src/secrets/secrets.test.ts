import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { replaceFile } from '../../test/support/bundles/bundle-file.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import type { Clock } from '../time/clock.ts'
import { Secrets } from './secrets.ts'
import { WorkerSecrets } from './worker-secrets.ts'

test('a secret is its variable or its file', async () => {
  const store = await Store.open({ A: 'from-variable' })
  await store.write('B', 'from-file\n')
  expect(await store.use('A', 'B')).toEqual([])
  expect([store.worker.valueOf('A'), store.worker.valueOf('B')]).toEqual(['from-variable', 'from-file'])
  expect(store.events()).toEqual([
    ['secret_loaded', 'A', 'EDGE_SECRET_A'],
    ['secret_loaded', 'B', store.path('B')],
  ])
  expect(store.secrets.all).toEqual(
    new Map([
      ['A', 'from-variable'],
      ['B', 'from-file'],
    ]),
  )
})

test('a secret that is missing, bad or there twice refuses a bundle, which is told by the place, the name and the way out', async () => {
  const store = await Store.open({ TWICE: 'hidden' })
  await store.write('TWICE', 'hidden')
  await store.write('BAD', 'hidden\nhidden')
  await store.write('LONG', 'hidden'.repeat(10_000))
  await mkdir(store.path('FOLDER'))
  expect(await store.use('MISSING', 'TWICE', 'BAD', 'LONG', 'FOLDER')).toEqual([
    {
      path: 'at.MISSING',
      message: `the secret MISSING is missing: create the file ${store.path('MISSING')}, or set EDGE_SECRET_MISSING and restart`,
    },
    {
      path: 'at.TWICE',
      message: `the secret TWICE is there twice: remove the file ${store.path('TWICE')}, or unset EDGE_SECRET_TWICE and restart`,
    },
    {
      path: 'at.BAD',
      message: `the secret BAD cannot be used: the file ${store.path('BAD')} contains a line break or another control character`,
    },
    {
      path: 'at.LONG',
      message: `the secret LONG cannot be read from ${store.path('LONG')}: it has 60000 bytes, more than 16386`,
    },
    { path: 'at.FOLDER', message: `the secret FOLDER cannot be read from ${store.path('FOLDER')}: it is a directory` },
  ])
  expect([store.announced, store.logged, [...store.secrets.all]]).toEqual([0, [], []])
})

test('without a directory, only variables are secrets', async () => {
  const store = await Store.open({ A: 'a' }, { hasDirectory: false })
  expect(await store.use('A', 'B')).toEqual([
    {
      path: 'at.B',
      message: 'the secret B is missing: set EDGE_SECRET_B and restart, or set EDGE_SECRETS_DIR to a directory that has the file B',
    },
  ])
  expect(await store.use('A')).toEqual([])
})

test('a file that is replaced is read again, and the workers get the new value', async () => {
  const store = await Store.open()
  await store.write('A', 'one')
  await store.use('A')
  await store.write('A', 'two')
  await until(() => store.worker.valueOf('A') === 'two')
  await until(() => store.events().length === 2)
  expect(store.secrets.all.get('A')).toBe('two')
})

test('a swap of the link that Kubernetes makes for all files of a volume replaces them', async () => {
  const store = await Store.open()
  for (const version of ['1', '2']) {
    await mkdir(store.path(`..${version}`))
    for (const name of ['A', 'B']) await writeFile(store.path(join(`..${version}`, name)), `${name}${version}\n`)
  }
  await symlink('..1', store.path('..data'))
  for (const name of ['A', 'B']) await symlink(join('..data', name), store.path(name))
  expect(await store.use('A', 'B')).toEqual([])
  await symlink('..2', store.path('..data_tmp'))
  await rename(store.path('..data_tmp'), store.path('..data'))
  await until(() => store.worker.valueOf('A') === 'A2' && store.worker.valueOf('B') === 'B2')
})

test('a file that becomes bad or vanishes leaves the last good value, with a problem that ends when it is good again', async () => {
  const store = await Store.open()
  await store.write('A', 'good')
  await store.use('A')
  await store.write('A', 'hidden\nhidden')
  await until(() => store.events().length === 2)
  expect(store.metric('edge_secret_failing', 'A')).toBe(1)
  await rm(store.path('A'))
  await until(() => store.events().length === 3)
  expect(store.worker.valueOf('A')).toBe('good')
  store.clock.advance(5000)
  await store.write('A', 'good')
  await until(() => store.events().length === 4)
  expect(store.logged.map(({ event, problem }) => [event, problem])).toEqual([
    ['secret_loaded', undefined],
    ['secret_failed', `the secret A cannot be used: the file ${store.path('A')} contains a line break or another control character`],
    ['secret_failed', `the secret A is missing: create the file ${store.path('A')}, or set EDGE_SECRET_A and restart`],
    ['secret_loaded', undefined],
  ])
  expect(store.metric('edge_secret_failing', 'A')).toBe(0)
  expect(store.metric('edge_secret_loaded_timestamp_seconds', 'A')).toBe(Math.floor(store.clock.wallMs() / 1000))
  expect(JSON.stringify(store.logged)).not.toMatch(/hidden|good"/)
})

test('a file that appears beside the variable in use is a problem, and the variable stays', async () => {
  const store = await Store.open({ A: 'from-variable' })
  await store.use('A')
  await store.write('A', 'from-file')
  await until(() => store.events().length === 2)
  expect(store.logged[1]).toMatchObject({ event: 'secret_failed', secret: 'A', variable: 'EDGE_SECRET_A' })
  await rm(store.path('A'))
  await until(() => store.events().length === 3)
  expect(store.worker.valueOf('A')).toBe('from-variable')
})

test('a secret whose file has vanished refuses no later bundle that names it, too', async () => {
  const store = await Store.open({ B: 'b' })
  await store.write('A', 'a')
  await store.use('A')
  await rm(store.path('A'))
  await until(() => store.events().length === 2)
  expect(await store.use('A', 'B')).toEqual([])
  expect(store.worker.valueOf('A')).toBe('a')
})

test('once all secrets of a refused bundle are there, it can be offered again, once', async () => {
  const store = await Store.open({ C: 'c' })
  expect(await store.use('A', 'B', 'C')).toHaveLength(2)
  await store.write('A', 'hidden\nhidden')
  await store.write('B', 'b')
  await store.write('A', 'a')
  await until(() => store.completions === 1)
  expect(store.logged).toEqual([])
  expect(await store.use('A', 'B', 'C')).toEqual([])
  await store.write('A', 'a2')
  await until(() => store.worker.valueOf('A') === 'a2')
  expect(store.completions).toBe(1)
})

test('what a refused bundle lacked is not waited for once another bundle came', async () => {
  const store = await Store.open({ C: 'c' })
  expect(await store.use('A')).toHaveLength(1)
  await store.write('B', 'b')
  expect(await store.use('B')).toEqual([])
  await store.write('A', 'a')
  await store.write('B', 'b2')
  await until(() => store.worker.valueOf('B') === 'b2')
  expect(store.completions).toBe(0)
})

test('a bundle whose file is not read in time is refused, and can be offered again when it was', async () => {
  const store = await Store.open({}, { pause: async () => {} })
  await store.write('A', 'a')
  expect(await store.use('A')).toEqual([
    { path: 'at.A', message: 'the secret A has not been read yet: does the disk of EDGE_SECRETS_DIR respond?' },
  ])
  await until(() => store.completions === 1)
  expect(await store.use('A')).toEqual([])
})

test('a secret that the next bundle does not name is dropped, but workers keep it for requests that began before', async () => {
  const store = await Store.open({ A: 'a', B: 'b' })
  await store.use('A')
  await store.use('B')
  expect(store.events().slice(1)).toEqual([
    ['secret_loaded', 'B', 'EDGE_SECRET_B'],
    ['secret_dropped', 'A', undefined],
  ])
  expect([...store.secrets.all.keys()]).toEqual(['B'])
  expect(store.worker.valueOf('A')).toBe('a')
  expect(store.metric('edge_secret_loaded_timestamp_seconds', 'A')).toBe(0)
})

test('if a bundle cannot become active, the secrets of the one before stay followed', async () => {
  const store = await Store.open({ B: 'b' })
  await store.write('A', 'a')
  await store.use('A')
  const uses = [{ name: 'B', path: 'at.B' }]
  expect(await store.secrets.problemsOf(uses)).toEqual([])
  await expect(store.secrets.switchTo(uses, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect([...store.secrets.all.keys()]).toEqual(['A'])
  await store.write('A', 'a2')
  await until(() => store.worker.valueOf('A') === 'a2')
  expect(store.events().filter(([, name]) => name === 'B')).toEqual([])
})

test('workers get the secrets before the bundle, and a worker that starts meanwhile gets those of both', async () => {
  const store = await Store.open({ A: 'a', B: 'b' })
  await store.use('A')
  const uses = [{ name: 'B', path: 'at.B' }]
  await store.secrets.problemsOf(uses)
  let meanwhile: unknown
  await store.secrets.switchTo(uses, async () => {
    meanwhile = [store.worker.valueOf('B'), [...store.secrets.all.keys()]]
  })
  expect(meanwhile).toEqual(['b', ['A', 'B']])
})

test('a worker never invents a secret', () => {
  expect(() => new WorkerSecrets().valueOf('A')).toThrow('the secret A is not known to this worker')
})

interface Logged {
  readonly event: string
  readonly secret: string
  readonly [field: string]: unknown
}

interface StoreOptions {
  readonly hasDirectory?: boolean
  readonly pause?: () => Promise<void>
}

/** Real files, and a worker that hears of them at once. */
class Store {
  readonly clock = new ManualClock()
  readonly logged: Logged[] = []
  readonly worker = new WorkerSecrets()
  readonly secrets: Secrets
  announced = 0
  completions = 0
  readonly #directory: string
  readonly #metrics = new MetricMemory(newMetricBuffer(1), 0)

  private constructor(variables: Record<string, string>, directory: string, { hasDirectory = true, pause }: StoreOptions) {
    this.#directory = directory
    const clock: Clock = this.clock
    this.secrets = new Secrets({
      places: { secretVariables: new Map(Object.entries(variables)), secretsDir: hasDirectory ? directory : undefined },
      logger: pino({ base: null }, { write: (line) => void this.logged.push(JSON.parse(line) as Logged) }),
      metrics: this.#metrics,
      clock,
      announce: (secrets) => {
        this.announced++
        this.worker.note(structuredClone(secrets))
      },
      onComplete: () => void this.completions++,
      // A first reading is waited for, however long a busy machine takes.
      pause: pause ?? (() => new Promise(() => {})),
    })
    onTestFinished(() => this.secrets.close())
  }

  static async open(variables: Record<string, string> = {}, options: StoreOptions = {}): Promise<Store> {
    return new Store(variables, await scratchDirectory({ onTestFinished }), options)
  }

  path(name: string): string {
    return join(this.#directory, name)
  }

  write(name: string, content: string): Promise<void> {
    return replaceFile(this.path(name), content)
  }

  /** Makes a bundle active that names these, or returns why it cannot be. */
  async use(...names: string[]): Promise<unknown[]> {
    const uses = names.map((name) => ({ name, path: `at.${name}` }))
    const problems = await this.secrets.problemsOf(uses)
    if (problems.length === 0) await this.secrets.switchTo(uses, async () => {})
    return problems
  }

  events(): unknown[][] {
    return this.logged.map(({ event, secret, variable, path }) => [event, secret, variable ?? path])
  }

  metric(family: 'edge_secret_failing' | 'edge_secret_loaded_timestamp_seconds', name: string): number {
    return new CounterFamily(this.#metrics, family).series(name).count
  }
}
