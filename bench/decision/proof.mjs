import { expect, fetchFrom } from '../support/http-client.mjs'

/** What a contestant under test lets through at most. */
export const LOW_LIMIT = 3
const BURST = 2 * LOW_LIMIT + 2

/** Whoever is compared does the job: it lets a few through, then rejects, and another key is none of its business. */
export async function expectToReject({ name, server, request, isKeyed = true }) {
  const statuses = []
  for (let i = 0; i < BURST; i++) statuses.push(await statusOf(server, request, 'proof-1'))
  expect(statuses[0] === 200 && statuses.at(-1) === 429, `${name} rejects what is too much: ${statuses}`)
  if (!isKeyed) return
  const other = await statusOf(server, request, 'proof-2')
  expect(other === 200, `${name} lets another key through: ${other}`)
}

async function statusOf({ port, socketPath }, { method, path, fields }, key) {
  const { status } = await fetchFrom(port, path, { method, fields: { ...fields, 'X-Api-Key': key }, socketPath })
  return status
}
