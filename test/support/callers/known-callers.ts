import type { IdentityProvider } from './identity-provider.ts'

/** An entry of `callers.jwt` for a real provider, with the team as its label. */
export async function providerEntry(provider: IdentityProvider, more: object = {}): Promise<object> {
  const labels = { team: { claim: 'groups', first: 'team-*' } }
  return { name: 'idp', issuer: provider.issuer, audiences: ['edge'], jwks_url: await provider.keySetUrl(), labels, ...more }
}

/** Lets edge fetch the key sets of these providers. */
export function providerHosts(...providers: readonly IdentityProvider[]): { EDGE_BACKEND_HOSTS: string } {
  return { EDGE_BACKEND_HOSTS: providers.map(({ issuer }) => new URL(issuer).host).join(',') }
}

/** A token of somebody in a team. */
export function teamToken(provider: IdentityProvider, sub: string, team: string): Promise<string> {
  return provider.token({ sub, claims: { groups: ['everyone', `team-${team}`] } })
}
