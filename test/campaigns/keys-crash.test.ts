import { randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { Cli } from '../support/service/cli.ts'
import { newFolder } from '../support/state/state.ts'
import { until } from '../support/until.ts'

const ROUNDS = 8
const LANES = 8

/** What the instance has confirmed of each key. */
type Confirmed = Map<string, { team: string; isRevoked: boolean }>

test('kill -9 at any moment loses no key, change or revocation that was confirmed', async () => {
  const folder = await newFolder()
  const bundleFile = join(folder, 'bundle.json')
  await writeFile(bundleFile, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 10)] }))))
  const env = { ...ADMIN_ENV, EDGE_KEYS_FILE: join(folder, 'keys'), EDGE_CONFIG_FILE: bundleFile, EDGE_WORKERS: '1' }
  const confirmed: Confirmed = new Map()
  for (let round = 0; round <= ROUNDS; round++) {
    const edge = await Cli.serve(env)
    const port = adminPortOf(edge)
    await expectAll(port, confirmed)
    if (round === ROUNDS) {
      await edge.stop()
      break
    }
    let isOver = false
    let count = 0
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      while (!isOver) {
        // A request that fails may have been done or not, so its key is no longer looked at.
        await change(port, confirmed, `${round}-${lane}-${count}`).then(
          () => count++,
          () => {},
        )
      }
    })
    const enough = randomInt(1, 60)
    await until(() => count >= enough)
    await edge.stop('SIGKILL')
    isOver = true
    await Promise.all(lanes)
  }
  expect(confirmed.size).toBeGreaterThan(0)
})

async function change(port: number, confirmed: Confirmed, team: string): Promise<void> {
  const ids = [...confirmed.keys()]
  const id = ids[randomInt(Math.max(1, ids.length))]
  const what = id === undefined ? 0 : randomInt(4)
  const { isRevoked } = (id !== undefined && confirmed.get(id)) || { isRevoked: true }
  if (what < 2 || isRevoked) {
    const { status, json } = await askAdmin(port, 'POST', 'keys', { body: { labels: { team }, reason: 'a test' } })
    if (status === 201) confirmed.set(json.id, { team, isRevoked: false })
    return
  }
  // While it is on its way, no other lane takes it.
  confirmed.delete(id!)
  const body = { labels: { team }, reason: 'a test' }
  const { status } = await (what === 2 ? askAdmin(port, 'PATCH', `keys/${id}`, { body }) : askAdmin(port, 'DELETE', `keys/${id}?reason=x`))
  if (status === 200) confirmed.set(id!, { team, isRevoked: false })
  if (status === 204) confirmed.set(id!, { team: '', isRevoked: true })
}

async function expectAll(port: number, confirmed: Confirmed): Promise<void> {
  for (const [id, { team, isRevoked }] of confirmed) {
    const { json } = await askAdmin(port, 'GET', `keys/${id}`)
    expect(json).toMatchObject(isRevoked ? { id, status: 'revoked' } : { id, status: 'active', labels: { team } })
  }
}
