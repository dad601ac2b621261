import { expect, test } from 'vitest'
import { FollowedKeySets, KeySetServer, keySetText } from '../../../test/support/callers/followed-key-sets.ts'
import { until } from '../../../test/support/until.ts'
import { Problems } from '../../control/problems.ts'

const MINUTE_MS = 60_000

test('a set is read before its bundle becomes active, and then at least every ten minutes', async () => {
  const server = await KeySetServer.start('a')
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.keySets.switchTo([entry], async () => {
    await followed.delivered()
    expect(worker.of('okta')!.has('a')).toBe(true)
  })
  server.publish('b')
  followed.advance(8.9 * MINUTE_MS)
  expect(server.fetches).toBe(1)
  followed.advance(1.1 * MINUTE_MS)
  await followed.untilLogged('key_set_loaded', 2)
  expect([worker.of('okta')!.has('a'), worker.of('okta')!.has('b')]).toEqual([false, true])
  expect(server.fetches).toBe(2)
})

test('a bundle does not wait for ever for a server that hangs', async () => {
  const server = await KeySetServer.start()
  const release = server.hold('a')
  let waitedMs = 0
  const followed = new FollowedKeySets({
    pause: async (ms) => {
      waitedMs += ms
    },
  })
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  expect([waitedMs, worker.of('okta')]).toEqual([2000, undefined])
  release()
  await followed.untilLogged('key_set_loaded', 1)
  expect(worker.of('okta')!.has('a')).toBe(true)
})

test('entries with the same URL share one fetch, and each is reported', async () => {
  const server = await KeySetServer.start('a')
  const followed = new FollowedKeySets()
  await followed.use({ name: 'one', jwks_url: server.url }, { name: 'two', jwks_url: server.url.replace('http:', 'HTTP:') })
  expect(server.fetches).toBe(1)
  expect(followed.events('key_set_loaded').map(({ issuer, keys }) => [issuer, keys])).toEqual([
    ['one', 1],
    ['two', 1],
  ])
  expect(followed.metric('edge_key_set_fetches_total')).toEqual({ 'one good': 1, 'two good': 1 })
  expect(followed.metric('edge_key_set_keys')).toEqual({ one: 1, two: 1 })
  const nowS = followed.clock.wallMs() / 1000
  expect(followed.metric('edge_key_set_last_good_timestamp_seconds')).toEqual({ one: nowS, two: nowS })
})

test('an entry that keeps its URL keeps its set over a change of bundles, also under another name', async () => {
  const server = await KeySetServer.start('a')
  const followed = new FollowedKeySets()
  await followed.use({ name: 'okta', jwks_url: server.url })
  server.fail()
  const renamed = { name: 'corp', jwks_url: server.url }
  const worker = followed.worker(renamed)
  await followed.use(renamed)
  expect(worker.of('corp')!.has('a')).toBe(true)
  expect(server.fetches).toBe(1)
  expect(followed.events('key_set_loaded').map(({ issuer }) => issuer)).toEqual(['okta', 'corp'])
  expect(followed.events('key_set_dropped').map(({ issuer }) => issuer)).toEqual(['okta'])
  expect(followed.metric('edge_key_set_keys')).toEqual({ okta: 0, corp: 1 })
})

test('an entry that changes its URL never verifies with the keys of the old one', async () => {
  const [old, next] = [await KeySetServer.start('a'), await KeySetServer.start('b')]
  const followed = new FollowedKeySets()
  const before = { name: 'okta', jwks_url: old.url }
  const after = { name: 'okta', jwks_url: next.url }
  const [ofOldPlan, ofNewPlan] = [followed.worker(before), followed.worker(after)]
  await followed.use(before)
  expect([ofOldPlan.of('okta')!.has('a'), ofNewPlan.of('okta')]).toEqual([true, undefined])
  await followed.keySets.switchTo([after], async () => {
    await followed.delivered()
    expect([ofOldPlan.of('okta')!.has('a'), ofNewPlan.of('okta')!.has('b')]).toEqual([true, true])
  })
  await followed.delivered()
  expect([ofOldPlan.of('okta'), ofNewPlan.of('okta')!.has('a')]).toEqual([undefined, false])
})

test('a bundle that cannot become active leaves the sets of the one before, and no problem', async () => {
  const [good, bad] = [await KeySetServer.start('a'), await KeySetServer.start()]
  bad.fail()
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: good.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  const refused = followed.keySets.switchTo([{ name: 'other', jwks_url: bad.url }], async () => {
    throw new Error('a worker refused it')
  })
  await expect(refused).rejects.toThrow('a worker refused it')
  await followed.delivered()
  expect(worker.of('okta')!.has('a')).toBe(true)
  expect(problems(followed)).toEqual([])
  const { fetches } = bad
  followed.advance(20 * MINUTE_MS)
  await until(() => good.fetches === 2)
  expect(bad.fetches).toBe(fetches)
})

test('without entries nothing is fetched, announced or logged', async () => {
  const followed = new FollowedKeySets()
  await followed.use()
  followed.advance(60 * MINUTE_MS)
  expect([followed.announcements, followed.logged, followed.keySets.all]).toEqual([0, [], { changed: [], gone: [] }])
})

test.each<[string, number, string, string]>([
  ['an error', 500, 'secret-text', 'it returned 500'],
  ['a missing page', 404, 'secret-text', 'it returned 404'],
  ['an HTML page', 200, '<html>secret-text</html>', 'the key set is not JSON'],
  ['no text', 200, '', 'the key set is not JSON'],
  ['half a set', 200, '{"keys":[{"kid":"secret-text"}', 'the key set is not JSON'],
  ['something else', 200, '{"error":"secret-text"}', 'the key set is not an object with "keys", a list of keys'],
  ['a list', 200, '[]', 'the key set is not an object with "keys", a list of keys'],
  ['null', 200, 'null', 'the key set is not an object with "keys", a list of keys'],
  ['keys that are no list', 200, '{"keys":{"length":1}}', 'the key set is not an object with "keys", a list of keys'],
  ['too many keys', 200, keySetText(...Array.from({ length: 101 }, String)), 'the key set has 101 keys; at most 100 are accepted'],
  ['deep nonsense', 200, '['.repeat(500_000), 'the key set is not JSON'],
  ['too much', 200, ' '.repeat(1024 * 1024 + 1), 'its body has more than 1048576 bytes'],
])('the last good set stays when its URL returns %s, which is said once', async (_what, status, text, problem) => {
  const server = await KeySetServer.start('a')
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: `${server.url}?p=secret-text` }
  const worker = followed.worker(entry)
  await followed.use(entry)
  server.fail(status, text)
  for (let fetches = 2; fetches <= 4; fetches++) {
    followed.advance(10 * MINUTE_MS)
    await until(() => followed.metric('edge_key_set_fetches_total')['okta failed'] === fetches - 1)
  }
  expect(followed.events('key_set_failed')).toEqual([
    expect.objectContaining({ issuer: 'okta', url: `${server.url}?…`, problem, msg: 'key set not loaded; the previous one stays in use' }),
  ])
  expect(worker.of('okta')!.has('a')).toBe(true)
  expect(followed.metric('edge_key_set_failing')).toEqual({ okta: 1 })
  expect(problems(followed)).toEqual([`key_set_failed: key set not loaded; the previous one stays in use: ${problem}`])
  expect(JSON.stringify(followed.logged)).not.toContain('secret-text')
  server.publish('a')
  followed.advance(10 * MINUTE_MS)
  await followed.untilLogged('key_set_loaded', 2)
  expect(followed.metric('edge_key_set_failing')).toEqual({ okta: 0 })
  expect(problems(followed)).toEqual([])
})

test('odd members of a set are no reason to refuse it', async () => {
  const server = await KeySetServer.start()
  server.fail(200, '\uFEFF{"keys":[null,1,"x",[],{},{"kid":5},{"kid":"a"},{"kid":"a"}],"more":{"keys":[]}}')
  const followed = new FollowedKeySets()
  const entry = { name: 'okta', jwks_url: server.url }
  const worker = followed.worker(entry)
  await followed.use(entry)
  expect(worker.of('okta')!.has('a')).toBe(true)
})

test('keys that are not used are logged with their reasons, but not all of a hundred', async () => {
  const server = await KeySetServer.start()
  const { keys } = JSON.parse(keySetText('a')) as { keys: object[] }
  server.fail(200, JSON.stringify({ keys: [...Array.from({ length: 99 }, () => ({ kty: 'oct' })), ...keys] }))
  const unused = Array.from({ length: 10 }, (_, i) => `keys[${i}] is not used: its "kty" is not RSA, EC or OKP`)
  const followed = new FollowedKeySets()
  await followed.use({ name: 'okta', jwks_url: server.url })
  expect(followed.events('key_set_loaded')[0]).toMatchObject({ keys: 1, unused })
})

test('the same bytes are not read twice', async () => {
  const server = await KeySetServer.start('a')
  const texts: string[] = []
  const followed = new FollowedKeySets({
    read: (text) => {
      texts.push(text)
      return { version: text, usable: [], unused: [], kids: [] }
    },
  })
  await followed.use({ name: 'okta', jwks_url: server.url })
  for (const [good, kid] of ['a', 'b', 'a'].entries()) {
    server.publish(kid)
    followed.advance(10 * MINUTE_MS)
    await until(() => followed.metric('edge_key_set_fetches_total')['okta good'] === good + 2)
  }
  expect(texts).toEqual([keySetText('a'), keySetText('b'), keySetText('a')])
})

test('bytes that are not UTF-8 are no set', async () => {
  const server = await KeySetServer.start()
  server.respond = (_req, res) => void res.end(Buffer.from('{"keys":[],"x":"\xff"}', 'latin1'))
  const followed = new FollowedKeySets()
  await followed.use({ name: 'okta', jwks_url: server.url })
  expect(followed.events('key_set_failed')[0]).toMatchObject({
    problem: 'it is not valid UTF-8',
    msg: 'key set not loaded; no token of this issuer can be verified',
  })
})

test('a URL that fails is tried again soon, then ever more seldom, and no less than once a minute', async () => {
  const server = await KeySetServer.start()
  server.fail()
  const followed = new FollowedKeySets()
  await followed.use({ name: 'okta', jwks_url: server.url })
  for (const [fetches, ms] of [5000, 10_000, 20_000, 40_000, 60_000, 60_000].entries()) {
    followed.advance(ms - 1)
    await followed.delivered()
    expect(server.fetches).toBe(fetches + 1)
    followed.advance(1)
    await until(() => followed.metric('edge_key_set_fetches_total')['okta failed'] === fetches + 2)
  }
})

test('each change of the problem is a line, and a problem ends with its issuer', async () => {
  const server = await KeySetServer.start()
  server.fail(500)
  const followed = new FollowedKeySets()
  await followed.use({ name: 'okta', jwks_url: server.url })
  server.fail(404)
  followed.advance(MINUTE_MS)
  await followed.untilLogged('key_set_failed', 2)
  expect(followed.events('key_set_failed').map(({ problem }) => problem)).toEqual(['it returned 500', 'it returned 404'])
  expect(problems(followed)).toHaveLength(1)
  await followed.use()
  expect(followed.metric('edge_key_set_failing')).toEqual({ okta: 0 })
  expect(problems(followed)).toEqual([])
})

test('a server that sends byte by byte ends with the time for a fetch', async () => {
  const server = await KeySetServer.start()
  server.respond = (_req, res) => {
    const timer = setInterval(() => res.write(' '), 10)
    res.on('close', () => clearInterval(timer))
  }
  const followed = new FollowedKeySets({ fetchTimeoutMs: 200 })
  await followed.use({ name: 'okta', jwks_url: server.url })
  expect(followed.events('key_set_failed')[0]).toMatchObject({ problem: 'no complete response within 0.2 s' })
})

test('no set waits for the server of another', async () => {
  const [hanging, good] = [await KeySetServer.start(), await KeySetServer.start('a')]
  hanging.hold()
  const followed = new FollowedKeySets({ pause: async () => {} })
  await followed.use({ name: 'slow', jwks_url: hanging.url }, { name: 'okta', jwks_url: good.url })
  await followed.untilLogged('key_set_loaded', 1)
  expect(followed.logged.map(({ event, issuer }) => [event, issuer])).toEqual([['key_set_loaded', 'okta']])
})

test('an operator who has sets read again gets what is published now, though a reading is under way', async () => {
  const server = await KeySetServer.start()
  const release = server.hold('a')
  const followed = new FollowedKeySets({ pause: async () => {} })
  await followed.use({ name: 'okta', jwks_url: server.url })
  await until(() => server.fetches === 1)
  const reread = Promise.all([followed.keySets.readAgain(), followed.keySets.readAgain()])
  server.publish('a', 'b')
  release()
  await reread
  expect(server.fetches).toBe(2)
  expect(followed.keySets.describe()).toMatchObject([{ issuer: 'okta', keys: 2, problem: null }])
})

test('what is fetched when everything is closed is called off', async () => {
  const server = await KeySetServer.start()
  const closed = new Promise<void>((resolve) => {
    server.respond = (_req, res) => void res.on('close', resolve)
  })
  const followed = new FollowedKeySets({ pause: async () => {} })
  await followed.use({ name: 'okta', jwks_url: server.url })
  await until(() => server.fetches === 1)
  followed.keySets.close()
  await closed
  await followed.delivered()
  expect(followed.logged).toEqual([])
})

/** What operators would see of the log. */
function problems(followed: FollowedKeySets): string[] {
  const seen = new Problems()
  for (const line of followed.logged) seen.note(line, 0)
  return seen.list(0).map(({ code, message }) => `${code}: ${message}`)
}
