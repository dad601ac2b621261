import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createEngine } from '../../../src/index.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { CALLERS } from '../../support/callers/good-callers.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'

const RULES = [
  matching({ 'caller:team': '*' }, bucketRule('team', ['caller:team', 'jwt:sub'], 1, 1e-6)),
  matching('else', bucketRule('others', ['caller:id'], 1, 1e-6)),
]
const BUNDLE = { ...bundle(1, policy('p', { rules: RULES })), callers: { ...CALLERS, mode: 'enforce' } }

test('edge test makes callers of claims as callers.jwt does, and takes them as they are', async () => {
  const cases = [
    {
      name: 'callers',
      steps: [
        { request: { uri: '/', claims: { sub: 'ada', team: 'blue' } }, expect: { status: [200, 429], rule: 'team' } },
        { request: { uri: '/', claims: { iss: 'https://okta.test', sub: 'ada' } }, expect: { status: [200, 429], rule: 'others' } },
        { request: { uri: '/', caller: { id: 'key:7', labels: { plan: 'x' } } }, expect: { status: [200, 429], rule: 'others' } },
        { request: { uri: '/', caller: {} }, expect: { status: [200, 429], rule: 'others' } },
        { request: { uri: '/', claims: { iss: 'https://evil.test', sub: 'ada' } }, expect: { status: 401, reason: 'unknown_caller' } },
        {
          request: { uri: '/', headers: { authorization: 'Bearer x' } },
          expect: { status: 401, reason: 'unknown_caller', headers: { 'WWW-Authenticate': 'Bearer' } },
        },
      ],
    },
  ]
  const { files, directory } = await written(cases)
  for (const mode of ['decision_service', 'reverse_proxy']) {
    const { status, stdout, stderr } = await command('test', '--mode', mode, ...files)
    expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('1 case: it passes')])
  }
  const wrong = [{ name: 'both', steps: [{ request: { uri: '/', claims: { sub: 'a' }, caller: {} }, expect: { status: 200 } }] }]
  await writeFile(join(directory, 'cases.json'), JSON.stringify(wrong))
  expect((await command('test', ...files)).stderr).toContain('expected either claims or caller, not both')
})

test.each([
  [
    { claims: { team: 'blue' } },
    'Its caller is not known: its token lacks a claim that is needed, or one cannot be used: wrong type, too long, or hidden characters (claims).',
  ],
  [
    { claims: { iss: 'https://evil.test', sub: 'a' } },
    'Its caller is not known: no entry of callers.jwt has the issuer of its token (issuer).',
  ],
  [{ headers: { authorization: 'Bearer x' } }, 'The case gives the request neither claims nor a caller.'],
])('edge test says why nobody knows the caller of %j', async (request, why) => {
  const { files } = await written([{ name: 'a', steps: [{ request: { uri: '/', ...request }, expect: { status: 200 } }] }])
  const { status, stdout } = await command('test', ...files)
  expect([status, stdout]).toEqual([1, expect.stringContaining(why)])
})

test('edge replay knows the callers that the decision log has, and nobody else', async () => {
  const { directory, files } = await written([])
  const line = (caller: object | undefined): string =>
    JSON.stringify({ time: '2026-01-01T00:00:00Z', method: 'GET', uri: '/', ...(caller && { caller }) })
  const blue = { labels: { team: 'blue' }, claims: { sub: 'ada' } }
  const log = join(directory, 'decisions.jsonl')
  await writeFile(log, [line(blue), line(blue), line({ id: 'okta:eve' }), line({ problem: 'expired' }), line(undefined)].join('\n'))
  const { status, stdout } = await finished(['replay', '--json', '--bundle', files[0]!, log])
  expect(status).toBe(0)
  const [replayed] = JSON.parse(stdout).bundles
  expect(replayed).toMatchObject({ allowed: 2, rejected: 1, refused: { unknown_caller: 2 } })
  expect(replayed.rules[0].callers).toEqual([{ values: { 'caller:team': 'blue', 'jwt:sub': 'ada' }, rejected: 1 }])
})

test('the library takes callers whom its user has verified', () => {
  const engine = createEngine({ storeBytes: 1 << 20 })
  expect(engine.load(JSON.stringify(BUNDLE)).ok).toBe(true)
  const request = { method: 'GET', uri: '/', headers: { authorization: 'Bearer good:ada:blue' } }
  expect(engine.decide(request)).toEqual({ action: 'refuse', reason: 'unknown_caller', caller: { problem: 'no_credential' } })
  const caller = { id: 'ada', labels: { team: 'blue' }, claims: { sub: 'ada' } }
  expect(engine.explain(request, { caller }).caller).toMatchObject({ id: 'ada' })
  expect([engine.decide(request, { caller }), engine.decide(request, { caller })]).toMatchObject([
    { action: 'allow', rule: { name: 'team' } },
    { action: 'reject', rule: { name: 'team' } },
  ])
  expect(engine.decide(request, { caller: { id: 'eve' } })).toMatchObject({ action: 'allow', rule: { name: 'others' } })
})

async function written(cases: object): Promise<{ directory: string; files: string[] }> {
  const directory = await scratchDirectory()
  const files = [join(directory, 'bundle.json'), join(directory, 'cases.json')]
  await writeFile(files[0]!, JSON.stringify(BUNDLE))
  await writeFile(files[1]!, JSON.stringify(cases))
  return { directory, files }
}
