import { expect, test } from 'vitest'
import { sourceImports } from './source-imports.ts'

/** What the files of some rooms must not import. */
interface Rule {
  /** Where paths begin; those that begin with one of `except` are not meant. */
  readonly of: readonly string[]
  readonly except?: readonly string[]
  /** How forbidden names begin; those that begin with one of `but` may be imported. */
  readonly not: readonly string[]
  readonly but?: readonly string[]
  readonly why: string
}

const STORES = ['store/embedded-store.ts', 'store/shared-table.ts', 'store/redis/', 'store/state/']
const SOURCES = ['bundle/', 'ip-data/']
const SERVERS = ['doors/', 'proxy/', 'admin/']
const PROGRAM = ['runtime/', 'cli/']
/** Nearly every room is used by these, and knows none of them. */
const USERS = ['listen/', 'decide/', ...SERVERS, ...SOURCES, 'config/', ...PROGRAM]
/** What a client of HTTP has no use for. */
const KNOWLEDGE = [
  ...['policy/', 'request/', 'limiter/', 'costs/', 'llm/', 'store/', 'engine/', 'overrides/', 'reservations/', 'decision-log/', 'top/'],
  ...['telemetry/', 'files/', 'simulation/', 'cases/', 'replay/', 'fake-llm/'],
]

const PURE = 'This room is pure: no I/O and no clock. Take what you need as an argument.'
const USED = 'This room knows nothing of the rooms that use it.'
const FRONT = 'The proxy is a thin front of decide, and knows no concrete store or source.'

const RULES: readonly Rule[] = [
  { of: ['policy/', 'request/', 'limiter/', 'costs/', 'llm/', 'decision-log/', 'top/'], not: ['node:', 'clock.ts'], why: PURE },
  { of: ['policy/', 'request/'], not: ['store/', 'engine/', 'http/', 'http1/', 'files/', 'telemetry/', ...USERS], why: USED },
  {
    of: ['limiter/', 'costs/', 'llm/'],
    not: ['policy/', 'request/', 'store/', 'engine/', 'http/', 'http1/', 'files/', 'telemetry/', ...USERS],
    why: USED,
  },
  {
    of: ['store/'],
    not: ['policy/', 'request/', 'engine/', 'http/', 'http1/', 'telemetry/', 'reservations/', ...USERS],
    why: "A store knows the limiter's arithmetic and nothing else.",
  },
  { of: ['engine/'], not: ['node:'], why: 'The engine does no I/O.' },
  { of: ['engine/'], not: ['llm/'], why: 'The engine knows costs, not what they are made of.' },
  {
    of: ['engine/'],
    not: [...STORES, 'http/', 'http1/', 'files/', 'telemetry/', 'reservations/', 'top/', ...USERS],
    why: "The engine knows the store's interface, never a store.",
  },
  { of: ['http/', 'http1/', 'files/'], not: ['store/', 'engine/', 'policy/', 'telemetry/', ...USERS], why: USED },
  {
    of: SOURCES,
    not: ['store/', 'engine/', 'http/', 'http1/', 'telemetry/', 'listen/', 'decide/', ...SERVERS, 'config/', ...PROGRAM],
    why: 'A source is told what to call with what it has read.',
  },
  { of: ['telemetry/'], not: [...STORES, ...USERS], why: USED },
  {
    of: ['listen/'],
    not: [...STORES, 'engine/', 'files/', 'decide/', ...SERVERS, ...SOURCES, ...PROGRAM],
    why: 'A listener accepts connections and knows nothing of what is asked on them.',
  },
  {
    of: ['decision-log/'],
    not: ['store/', 'limiter/', 'costs/', 'llm/', 'files/', 'http/', 'http1/', 'telemetry/', ...USERS],
    why: 'A line is made of the plan and of what the engine sees of a request.',
  },
  {
    of: ['top/'],
    not: [...STORES, 'files/', 'http/', 'http1/', 'telemetry/', ...USERS],
    why: "Callers are watched through the engine and the store's interface.",
  },
  {
    of: ['reservations/'],
    not: [...STORES, 'files/', 'http/', 'http1/', 'telemetry/', ...USERS],
    why: 'A reservation knows the engine, no door and no concrete store.',
  },
  {
    of: ['decide/'],
    not: [...STORES, 'files/', 'listen/', ...SERVERS, ...SOURCES, 'config/', ...PROGRAM],
    why: 'The pipeline knows no door, no socket and no concrete store.',
  },
  { of: ['doors/'], not: [...STORES, 'files/', 'proxy/', 'admin/', ...SOURCES, ...PROGRAM], why: 'A door is a thin front of decide.' },
  {
    of: ['proxy/'],
    except: ['proxy/node-http/'],
    not: ['node:http', 'http'],
    but: ['node:http2', 'http/', 'http1/'],
    why: 'The proxy speaks to its clients through a Downstream: only src/proxy/node-http/ knows node:http.',
  },
  { of: ['proxy/'], not: [...STORES, 'files/', 'doors/', 'admin/', ...SOURCES, ...PROGRAM], why: FRONT },
  {
    of: ['proxy/backend/'],
    not: ['node:http', ...USERS, ...KNOWLEDGE],
    but: ['proxy/backend/', 'listen/connection-slots.ts'],
    why: 'The client of the backend knows nothing of the proxy that uses it: no clients, decisions or tokens.',
  },
  {
    of: ['admin/'],
    not: [...STORES, 'files/', 'doors/', 'proxy/', ...SOURCES, ...PROGRAM],
    why: 'The admin server knows no concrete store or source, no door and no proxy.',
  },
  {
    of: ['simulation/', 'cases/'],
    not: ['node:', 'store/redis/', 'store/state/', 'listen/', 'telemetry/', 'admin/', ...PROGRAM],
    why: 'A simulation has no socket, no thread and no real time.',
  },
  {
    of: ['replay/'],
    not: [...STORES, 'listen/', 'telemetry/', ...SERVERS, ...PROGRAM, 'clock.ts'],
    why: 'A replay decides by simulations alone.',
  },
  { of: ['runtime/'], not: ['cli/'], why: USED },
]

test('no room imports what it must not know', () => {
  expect(broken(RULES, sourceImports())).toEqual([])
})

test('a forbidden import is found, with the reason', () => {
  const rule: Rule = { of: ['a/'], except: ['a/b/'], not: ['node:', 'c/'], but: ['c/open.ts'], why: 'That is why.' }
  const imports = new Map([
    ['a/one.ts', ['node:fs', 'c/open.ts', 'a/two.ts', 'zod']],
    ['a/two.ts', ['c/closed.ts']],
    ['a/b/three.ts', ['c/closed.ts']],
    ['c/open.ts', ['c/closed.ts']],
  ])
  expect(broken([rule], imports)).toEqual(['src/a/one.ts imports node:fs. That is why.', 'src/a/two.ts imports c/closed.ts. That is why.'])
})

function broken(rules: readonly Rule[], imports: ReadonlyMap<string, readonly string[]>): string[] {
  const begins = (name: string, starts: readonly string[] = []): boolean => starts.some((start) => name.startsWith(start))
  return rules.flatMap(({ of, except, not, but, why }) =>
    [...imports]
      .filter(([file]) => begins(file, of) && !begins(file, except))
      .flatMap(([file, names]) =>
        names.filter((name) => begins(name, not) && !begins(name, but)).map((name) => `src/${file} imports ${name}. ${why}`),
      ),
  )
}
