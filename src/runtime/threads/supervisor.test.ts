import { pino } from 'pino'
import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../../test/support/bundles/bundles.ts'
import { BLOCK, override, ruleOf } from '../../../test/support/overrides/overridden-engine.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { serverMemory } from '../../../test/support/service/server-memory.ts'
import { until } from '../../../test/support/until.ts'
import { type GoodBundle, readBundle } from '../../bundle/bundle-reader.ts'
import { newKeyMemory } from '../../callers/keys/key-memory.ts'
import type { ListenError, ToWorker } from '../../control/thread-messages.ts'
import type { ListenerName } from '../../listen/listeners.ts'
import type { TimedOverride } from '../../overrides/override.ts'
import { newTableBuffer } from '../../store/table/table-layout.ts'
import { MetricMemory } from '../../telemetry/metrics/metric-memory.ts'
import type { TlsMaterial } from '../../tls/tls-files.ts'
import { newSharedMemory, SUPERVISOR } from '../shared-memory.ts'
import { Supervisor } from './supervisor.ts'
import { type SharedSocket, type WorkerHost, type WorkerLink, type WorkerListener, WorkerSlots } from './worker-host.ts'

const INFO = { version: '1', hash: '', updatedAtS: 0 }
const SOCKET: SharedSocket = { share: async () => ({ fd: 0 }), giveBack() {}, noteListening() {}, close() {} }

test('a worker that takes the place of another learns since when the limits hold, not when the last bundle came', async () => {
  const { supervisor, host, clock } = await supervising()
  const startMs = clock.nowMs()
  await supervisor.activate(limited(1, 10), INFO)
  clock.advance(100)
  await supervisor.activate(limited(2, 10), INFO)
  clock.advance(100)
  await supervisor.activate(limited(2, 10, policy('other', { rules: [] })), INFO)
  host.listener.onExit(undefined)
  await until(() => host.received.length > 0 && host.received.at(-1)!.type === 'listen')
  expect(host.received.map((message) => (message.type === 'prepare' ? [...message.sincesMs] : message.type))).toEqual([
    [startMs + 100, startMs],
    'get_ready',
    'listen',
  ])
})

test('a worker that takes the place of another is sent the overrides that the others know by then', async () => {
  const { supervisor, host, clock, overrides } = await supervising()
  await supervisor.activate(limited(1, 10), INFO)
  overrides.push(override(ruleOf(), BLOCK, clock))
  host.listener.onExit(undefined)
  await until(() => host.received.some(({ type }) => type === 'listen'))
  expect(host.received.slice(0, 2)).toMatchObject([{ type: 'overrides', change: { put: overrides, gone: [] } }, { type: 'prepare' }])
})

test('a worker that takes the place of another is sent the key sets before the bundle that needs them', async () => {
  const { supervisor, host } = await supervising()
  const asked: string[] = []
  const news = { source: 'https://a.test/', keys: undefined, readAtMs: 1, isFailing: false, askableAtMs: 2 }
  const all = { changed: [news], gone: [] }
  supervisor.followKeySets({ all, ask: (source) => void asked.push(source) })
  await supervisor.activate(limited(1, 10), INFO)
  host.listener.onExit(undefined)
  await until(() => host.received.some(({ type }) => type === 'listen'))
  expect(host.received.slice(0, 2)).toMatchObject([{ type: 'key_sets', change: all }, { type: 'prepare' }])
  const change = { changed: [], gone: ['https://a.test/'] }
  supervisor.announceKeySets(change)
  expect(host.received.at(-1)).toEqual({ type: 'key_sets', change })
  host.listener.onMessage({ type: 'ask_key_set', source: 'https://a.test/' })
  expect(asked).toEqual(['https://a.test/'])
})

test('a worker that takes the place of another is sent the secrets before the bundle that needs them', async () => {
  const { supervisor, host } = await supervising()
  const all = new Map([['OPENAI_A', 'a']])
  supervisor.followSecrets({ all })
  await supervisor.activate(limited(1, 10), INFO)
  host.listener.onExit(undefined)
  await until(() => host.received.some(({ type }) => type === 'listen'))
  expect(host.received.slice(0, 2)).toMatchObject([{ type: 'secrets', secrets: all }, { type: 'prepare' }])
  supervisor.announceSecrets(new Map([['OPENAI_A', 'b']]))
  expect(host.received.at(-1)).toEqual({ type: 'secrets', secrets: new Map([['OPENAI_A', 'b']]) })
})

test('a worker is sent the certificates before it listens, one that takes the place of another those of that moment', async () => {
  const materials = [1, 2].map((byte) => ({ pairs: [], clientAuthorities: undefined, ticketKeys: Uint8Array.of(byte) }))
  let material = materials[0]!
  const { supervisor, host } = supervised(() => material)
  await supervisor.open('ready')
  expect(host.received[0]).toEqual({ type: 'tls', material })
  material = materials[1]!
  supervisor.announceTls(material)
  expect(host.received.at(-1)).toEqual({ type: 'tls', material })
  host.listener.onExit(undefined)
  await until(() => host.received.some(({ type }) => type === 'listen'))
  expect(host.received[0]).toEqual({ type: 'tls', material })
})

test('an address that no worker can listen on ends the start, and the error names the listener', async () => {
  const { supervisor, host } = supervised()
  host.listenError = { message: 'listen EADDRINUSE', code: 'EADDRINUSE', syscall: 'listen' }
  await expect(supervisor.open('ready')).rejects.toMatchObject({ code: 'EADDRINUSE', syscall: 'listen', listener: 'main' })
})

/** Two rules, the first of which has this burst. */
function limited(burst: number, otherBurst: number, ...others: ReturnType<typeof policy>[]): GoodBundle {
  const rules = [bucketRule('a', [], burst), bucketRule('b', [], otherBurst)]
  const read = readBundle(Buffer.from(JSON.stringify(bundle(1, policy('p', { rules }), ...others))), 'json')
  if (!read.ok) throw new Error(JSON.stringify(read.problems))
  return read
}

interface Supervised {
  readonly supervisor: Supervisor
  readonly host: ObedientHost
  readonly clock: ManualClock
  /** What has been announced to workers. */
  readonly overrides: TimedOverride[]
}

/** Open for a minute. */
async function supervising(): Promise<Supervised> {
  const started = supervised()
  await started.supervisor.open('ready')
  started.clock.advance(60_000)
  return started
}

function supervised(tls?: () => TlsMaterial): Supervised {
  const clock = new ManualClock()
  const memory = newSharedMemory(newTableBuffer(64 * 1024), [1, 2], 1, serverMemory().reservations.memory, newKeyMemory(1))
  const host = new ObedientHost()
  const overrides: TimedOverride[] = []
  const metrics = new MetricMemory(memory.metrics, SUPERVISOR)
  const logger = pino({ level: 'silent' })
  const supervisor = new Supervisor({
    host,
    slots: new WorkerSlots(1),
    sockets: new Map([['main', SOCKET]]),
    memory,
    metrics,
    logger,
    nowMs: () => clock.nowMs(),
    overrides: () => overrides,
    tls,
    pause: async () => {},
  })
  return { supervisor, host, clock, overrides }
}

/** Has one worker that acts on every message at once, and remembers the messages to its last one. */
class ObedientHost implements WorkerHost {
  received: ToWorker[] = []
  listener!: WorkerListener
  listenError: ListenError | undefined

  async bind(): Promise<SharedSocket> {
    return SOCKET
  }

  startWorker(_worker: number, _memory: unknown, listener: WorkerListener): WorkerLink {
    this.received = []
    this.listener = listener
    return { send: (message) => this.#obey(message), terminate() {} }
  }

  #obey(message: ToWorker): void {
    this.received.push(message)
    if (message.type === 'get_ready') queueMicrotask(() => this.#getReady())
    if (message.type === 'listen') this.#listen(message.listener)
    if (message.type === 'prepare') this.listener.onMessage({ type: 'prepared', generation: message.generation, problem: undefined })
  }

  #listen(listener: ListenerName): void {
    const { listenError: error } = this
    if (error === undefined) this.listener.onMessage({ type: 'listening', listener, address: { host: undefined, port: 1 } })
    else this.listener.onMessage({ type: 'cannot_listen', listener, error })
  }

  #getReady(): void {
    this.listener.onMessage({ type: 'up' })
    this.listener.onMessage({ type: 'ready' })
  }
}
