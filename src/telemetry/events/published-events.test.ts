import { pino } from 'pino'
import { expect, test } from 'vitest'
import { EventTap, type PublishedEvent } from './published-events.ts'

function tapped(level: string) {
  const written: string[] = []
  const events: PublishedEvent[] = []
  const tap = new EventTap({ write: (line) => void written.push(line) }, level)
  return { logger: pino({ level: tap.level }, tap), tap, written, events, listen: () => tap.listen((event) => events.push(event)) }
}

test.each([
  ['trace', ['debug', 'info', 'warn']],
  ['debug', ['debug', 'info', 'warn']],
  ['info', ['info', 'warn']],
  ['warn', ['warn']],
  ['silent', []],
])('with level %s the log has what it would have without events', (level, expected) => {
  const { logger, written, events, listen } = tapped(level)
  listen()
  for (const name of ['debug', 'info', 'warn'] as const) logger[name]({ event: 'started', name }, 'x')
  expect(written.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual(expected)
  expect(events.filter(({ line }) => !line.includes('"debug"'))).toHaveLength(2)
})

test('what is logged before anybody listens is not lost', () => {
  const { logger, events, listen } = tapped('info')
  logger.info({ event: 'state_loaded', counters: 3 }, 'loaded')
  listen()
  logger.info({ event: 'started' }, 'edge started')
  expect(events.map(({ name }) => name)).toEqual(['state_loaded', 'started'])
})

test('only published events are passed on, with the fields of child loggers, each in one line', () => {
  const { logger, events, listen } = tapped('info')
  listen()
  logger.info({ event: 'refused', reason: 'x' }, 'not published')
  logger.info('no event')
  logger.info(Object.create(null), 'no event either')
  logger.child({ worker: 2 }).warn({ event: 'redis_unavailable', reason: 'a\nb\r\n' }, 'gone\n')
  expect(events.map(({ line }) => JSON.parse(line) as unknown)).toMatchObject([
    { worker: 2, event: 'redis_unavailable', reason: 'a\nb\r\n' },
  ])
  expect(events[0]!.line).not.toMatch(/[\r\n]/)
})

test('errors stay in the log: their messages may quote anything', () => {
  const { logger, events, written, listen } = tapped('info')
  listen()
  const err = new SyntaxError('Unexpected token in "sk-secret"')
  logger.error({ event: 'worker_died', worker: 1, err }, 'a worker died')
  expect(written[0]).toContain('sk-secret')
  expect(JSON.parse(events[0]!.line)).toMatchObject({ event: 'worker_died', worker: 1, msg: 'a worker died' })
  expect(events[0]!.line).not.toMatch(/sk-secret|"err"/)
})

test('of a line that is very long, the fields that make it so are left out and named', () => {
  const { logger, events, listen } = tapped('info')
  listen()
  logger.error({ event: 'bundle_refused', problems: Array(50).fill('x'.repeat(1000)), problems_in_all: 70 }, 'refused')
  expect(JSON.parse(events[0]!.line)).toMatchObject({
    event: 'bundle_refused',
    problems_in_all: 70,
    left_out: ['problems'],
    msg: 'refused',
  })
})
