import { createHash, randomInt } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, adminPortOf, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { AMPLE_TIMEOUT } from '../support/redis/sharing-edge.ts'
import { Cli } from '../support/service/cli.ts'
import type { Environment } from '../support/service/running.ts'
import { newFolder } from '../support/state/state.ts'
import { until } from '../support/until.ts'

const ROUNDS = 8
const LANES = 8

/** What the instance has confirmed of each key. */
interface Confirmed {
  readonly labels: object
  readonly expires_at: string | null
  readonly isRevoked: boolean
}
type Model = Map<string, Confirmed>

test('kill -9 at any moment loses nothing that was confirmed, with a file', async () => {
  await crashAgainAndAgain({ EDGE_KEYS_FILE: join(await newFolder(), 'keys') })
})

describeWithRedis('with Redis', () => {
  test('kill -9 at any moment loses nothing that was confirmed', async () => {
    const redis = await runningRedis()
    await crashAgainAndAgain({ EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT })
  })

  test('kill -9 at any moment loses nothing that was confirmed, with a file as a copy', async () => {
    const redis = await runningRedis()
    await crashAgainAndAgain({ EDGE_REDIS_URL: redis.url, ...AMPLE_TIMEOUT, EDGE_KEYS_FILE: join(await newFolder(), 'keys') })
  })
})

/** Issues, imports, changes, ends and revokes keys, kills the process in the middle of it, and compares what the next one knows. */
async function crashAgainAndAgain(where: Environment): Promise<void> {
  const bundleFile = join(await newFolder(), 'bundle.json')
  await writeFile(bundleFile, JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', [], 10)] }))))
  const env = { ...ADMIN_ENV, ...where, EDGE_CONFIG_FILE: bundleFile, EDGE_WORKERS: '1' }
  const model: Model = new Map()
  for (let round = 0; round <= ROUNDS; round++) {
    const edge = await Cli.serve(env)
    const port = adminPortOf(edge)
    await until(async () => (await askAdmin(port, 'GET', 'keys')).status === 200)
    await expectAll(port, model)
    if (round === ROUNDS) {
      await edge.stop()
      break
    }
    let isOver = false
    let count = 0
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      while (!isOver) {
        // A request that fails may have been done or not, so its key is no longer looked at.
        await change(port, model, `${round}-${lane}-${count}`).then(
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
  const states = [...model.values()]
  expect(states.some(({ isRevoked }) => isRevoked)).toBe(true)
  expect(states.some(({ expires_at }) => expires_at !== null)).toBe(true)
}

async function change(port: number, model: Model, team: string): Promise<void> {
  const ids = [...model.keys()]
  const id = ids[randomInt(Math.max(1, ids.length))]
  const what = randomInt(5)
  const labels = { team }
  const end = [{}, { expires_at: '90d' }, { expires_at: '1s' }][randomInt(3)]
  if (what < 2 || id === undefined || model.get(id)!.isRevoked) {
    const digest = what === 1 && { digest: createHash('sha256').update(team).digest('base64url') }
    note(model, await askAdmin(port, 'POST', 'keys', { body: { labels, ...end, ...digest, reason: 'a test' } }))
    return
  }
  // While it is on its way, no other lane takes it.
  const former = model.get(id)!
  model.delete(id)
  if (what === 2) note(model, await askAdmin(port, 'PATCH', `keys/${id}`, { body: { labels, reason: 'a test' } }))
  else if (what === 3) note(model, await askAdmin(port, 'PATCH', `keys/${id}`, { body: { expires_at: null, ...end, reason: 'a test' } }))
  else if ((await askAdmin(port, 'DELETE', `keys/${id}?reason=x`)).status === 200) model.set(id, { ...former, isRevoked: true })
}

function note(model: Model, { status, json }: AdminResponse): void {
  if (status === 200 || status === 201) model.set(json.id, { labels: json.labels, expires_at: json.expires_at, isRevoked: false })
}

async function expectAll(port: number, model: Model): Promise<void> {
  for (const [id, { labels, expires_at, isRevoked }] of model) {
    const { json } = await askAdmin(port, 'GET', `keys/${id}`)
    // A key that has ended meanwhile is neither lost nor revoked.
    const status = isRevoked ? 'revoked' : expect.stringMatching(/^(?:active|expired)$/)
    expect(json).toMatchObject({ id, labels, expires_at, status })
  }
}
