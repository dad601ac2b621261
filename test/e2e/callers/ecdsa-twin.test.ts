import { describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ecdsaTwin } from '../../support/callers/ecdsa-twin.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { providerEntry, providerHosts } from '../../support/callers/known-callers.ts'
import { running } from '../../support/service/running.ts'

const LIMITED = policy('p', { rules: [bucketRule('r', ['bearer'], 3, 1e-6)] })

describe.each(['verified', 'unverified'])('a token of ECDSA, %s, whose s was replaced by n - s', (kind) => {
  test('is the same caller under bearer: one bucket, one block, whichever of both the operator wrote', async () => {
    const provider = await IdentityProvider.start({ onTestFinished })
    const token = await provider.token({ sub: 'ada' })
    const twin = ecdsaTwin(token)
    const callers = kind === 'verified' ? { callers: { mode: 'enforce', jwt: [await providerEntry(provider)] } } : {}
    const edge = await running({ bundle: { ...bundle(1, LIMITED), ...callers }, env: { ...ADMIN_ENV, ...providerHosts(provider) } })
    const statusOf = async (one: string): Promise<number> => (await edge.decide({ fields: [['Authorization', `Bearer ${one}`]] })).status
    const statuses: number[] = []
    for (const one of [token, twin, token, twin, token]) statuses.push(await statusOf(one))
    expect(statuses).toEqual([200, 200, 200, 429, 429])
    for (const one of [token, twin]) {
      const counters = await askAdmin(edge.adminPort, 'POST', 'counters', { body: { policy: 'p', rule: 'r', values: { bearer: one } } })
      expect(counters.json).toMatchObject({ counters: [{ remaining: 0 }] })
    }
    let version = 1
    for (const written of [token, twin]) {
      const block = { name: 'stolen', match: { bearer: written }, algorithm: 'block', algorithm_config: {} }
      await edge.publish({ ...bundle(++version, policy('p', { rules: [block] })), ...callers })
      expect([await statusOf(token), await statusOf(twin)]).toEqual([403, 403])
    }
  })
})
