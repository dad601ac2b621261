import { expect, onTestFinished, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { bearer, statusesOf, statusOf } from '../../support/callers/asking-workers.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts, teamToken } from '../../support/callers/known-callers.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const RULES = bundle(1, policy('p', { rules: [bucketRule('team', ['caller:team'], 1_000_000, 1)] }))

test('keys rotate under load without one false 401: old tokens stay known, and new ones are known at once, on every worker', async () => {
  const provider = await IdentityProvider.start({ onTestFinished })
  const callers = { mode: 'enforce', jwt: [await providerEntry(provider)] }
  const { port } = await servingOn(3, { ...RULES, callers }, providerHosts(provider))
  const tokens = [await teamToken(provider, 'ada', 'blue')]
  const counts = new Map<number, number>()
  let isOver = false
  const lanes = Array.from({ length: 8 }, async (_, lane) => {
    for (let i = lane; !isOver; i++) {
      const status = await statusOf(port, bearer(tokens[i % tokens.length]!))
      counts.set(status, (counts.get(status) ?? 0) + 1)
    }
  })
  const asked = (): number => [...counts.values()].reduce((sum, count) => sum + count, 0)
  const somewhatLater = async (): Promise<void> => {
    const enough = asked() + 200
    await until(() => asked() >= enough)
  }
  await somewhatLater()
  provider.rotate('keep')
  const newTokens = await Promise.all(['bob', 'eve', 'joe'].map((sub) => teamToken(provider, sub, 'red')))
  tokens.push(...newTokens)
  await somewhatLater()
  expect(await statusesOf(port, bearer(newTokens[0]!))).toEqual(Array(30).fill(200))
  isOver = true
  await Promise.all(lanes)
  expect([...counts.keys()]).toEqual([200])
  expect(provider.keySetFetches).toBe(2)
})
