import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { expect, onTestFinished, test } from 'vitest'
import { FollowedKeySets } from '../../support/callers/followed-key-sets.ts'
import { IdentityProvider } from '../../support/callers/identity-provider.ts'
import { until } from '../../support/until.ts'

test.each(['RS256', 'PS256', 'ES256', 'EdDSA'] as const)(
  'a real provider issues tokens signed with %s that its own key set verifies',
  async (algorithm) => {
    const provider = await IdentityProvider.start({ onTestFinished }, algorithm)
    const token = await provider.token({ sub: 'alice', claims: { groups: ['team-a', 'staff'] }, lifetimeSeconds: 60 })
    const { payload, protectedHeader } = await jwtVerify(token, createRemoteJWKSet(new URL(await provider.keySetUrl())), {
      issuer: provider.issuer,
      audience: 'edge',
    })
    expect(payload).toMatchObject({ sub: 'alice', groups: ['team-a', 'staff'], exp: payload.iat! + 60 })
    expect(protectedHeader).toMatchObject({ alg: algorithm, kid: provider.kids[0], typ: 'at+jwt' })
  },
)

test('the set of a real provider is read, and its new keys when it rotates, at most ten minutes later or with the first token', async () => {
  const provider = await IdentityProvider.start({ onTestFinished })
  const followed = new FollowedKeySets()
  const entry = { name: 'provider', jwks_url: await provider.keySetUrl() }
  const worker = followed.worker(entry)
  await followed.use(entry)
  expect(worker.of('provider')!.has(kidOf(await provider.token()))).toBe(true)

  provider.rotate('keep')
  followed.advance(600_000)
  await followed.untilLogged('key_set_loaded', 2)
  expect(worker.of('provider')!.has(kidOf(await provider.token()))).toBe(true)

  const withdrawn = provider.kids[0]!
  provider.rotate('withdraw')
  const kid = kidOf(await provider.token())
  expect(worker.of('provider')!.has(kid)).toBe(false)
  expect(await worker.wait('provider', kid)).toBeUndefined()
  expect([worker.of('provider')!.has(kid), worker.of('provider')!.has(withdrawn)]).toEqual([true, false])
  await until(() => provider.keySetFetches === 3)
})

function kidOf(token: string): string {
  return decodeProtectedHeader(token).kid!
}
