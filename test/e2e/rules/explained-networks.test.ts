import { beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { explained } from '../../support/admin/explained.ts'
import { blockRule, bundle, matching, policy, unlimitedRule, windowRule } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

const NETWORKS = ['10.0.0.0/8', '2001:db8::/32']
const RULES = [
  unlimitedRule('office', { 'ip:address': NETWORKS }),
  blockRule('banned', { 'ip:address': ['10.6.6.6', '198.51.100.0/24'] }),
  matching('else', windowRule('others', ['ip:address'], { limit: 5, period: '1mo', anchor: 20 })),
  windowRule('all', [], { limit: 9, period: '1w', anchor: 'sunday' }),
]

const owner = thisSuite()
let edge: Edge

beforeAll(async () => {
  // It is Thursday, 15 January 2026, noon.
  edge = await running({ bundle: bundle(1, policy('api', { rules: RULES })), clock: new ManualClock(), env: ADMIN_ENV }, owner)
})

beforeEach(() => {
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  return () => vi.unstubAllEnvs()
})

test.each([
  ['10.1.2.3', ['office']],
  ['::ffff:10.1.2.3', ['office']],
  ['2001:db8:ffff::1', ['office']],
  // An exact address and a network are equals: both rules apply, and the block decides.
  ['10.6.6.6', ['office', 'banned']],
  ['198.51.100.255', ['banned']],
  ['198.51.101.0', ['others']],
  ['2001:db9::', ['others']],
])('explain says which rules %s is subject to, over the API and on the command line', async (address, expected) => {
  const { policies, status } = await explained(edge.adminPort, { headers: { 'X-Forwarded-For': address } })
  const rules = policies[0].rules as { name: string; applied: boolean }[]
  expect(rules.flatMap(({ name, applied }) => (applied && name !== 'all' ? [name] : []))).toEqual(expected)
  expect(status).toBe(expected.includes('banned') ? 403 : 200)
  const said = await command('explain', '-H', `X-Forwarded-For: ${address}`, '/')
  for (const { name, applied } of rules.filter(({ name: one }) => one !== 'all'))
    expect(/does not apply/.test(said.stdout.split('\n').find((line) => line.includes(` ${name}`)) ?? ''), name).toBe(!applied)
})

test('explain and the command line say when an anchored window ends', async () => {
  await edge.decideTimes(1, { uri: '/', fields: [['X-Forwarded-For', '192.0.2.1']] })
  const { policies } = await explained(edge.adminPort, { headers: { 'X-Forwarded-For': '192.0.2.1' } })
  const ends = (policies[0].rules as { name: string; counters: { reset_s: number }[] }[]).flatMap(({ name, counters }) =>
    counters.map(({ reset_s: seconds }) => [name, seconds]),
  )
  const noonUntil = (day: string): number => (Date.parse(day) - Date.parse('2026-01-15T12:00:00Z')) / 1000
  expect(ends).toEqual([
    ['others', noonUntil('2026-01-20')],
    ['all', noonUntil('2026-01-18')],
  ])
  const { stdout } = await command('explain', '-H', 'X-Forwarded-For: 192.0.2.1', '/')
  expect(stdout).toContain('full again in 4 d 12 h')
  expect(stdout).toContain('full again in 2 d 12 h')
})

test('policies show networks and anchors as they are written', async () => {
  const { json } = await askAdmin(edge.adminPort, 'GET', 'policies')
  const [office, , others, all] = json.policies[0].rules
  expect(office.match).toEqual({ 'ip:address': NETWORKS })
  expect([others.algorithm_config.anchor, all.algorithm_config.anchor]).toEqual([20, 'sunday'])
})

test('a change of networks, anchors and labels is shown by edge bundle', async () => {
  const other = await running({ bundle: bundle(1, policy('api', { rules: RULES })), env: ADMIN_ENV })
  const changed = [
    unlimitedRule('office', { 'ip:address': '10.0.0.0/9' }),
    ...RULES.slice(1, 3),
    windowRule('all', [], { limit: 9, period: '1w', anchor: 'friday' }),
  ]
  await other.publish({ ...bundle(2, policy('api', { rules: changed })), usage: { labels: ['header:x-team'] } })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${other.adminPort}`)
  const { stdout } = await command('bundle', '2')
  expect(stdout).toContain('match.ip:address: ["10.0.0.0/8","2001:db8::/32"] → 10.0.0.0/9\n')
  expect(stdout).toContain('algorithm_config.anchor: sunday → friday\n')
  expect(stdout).toContain('usage changed')
  expect(stdout).toContain('  changed usage\n    labels: ')
  expect(stdout).toContain('["header:x-team"]')
})
