import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import type { KeyRequest, NewKey } from '../../src/admin/api/key-types.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, matching, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { writeKeyFile } from '../support/keys/key-file.ts'
import { sampleKey } from '../support/keys/sample-keys.ts'
import { running, scratchDirectory } from '../support/service/running.ts'

const RULES = [
  bucketRule('team', ['caller:team'], 5, 0.001),
  matching({ 'caller:plan': ['free'] }, bucketRule('free', ['caller:id'], 2, 0.001)),
]
const READS_KEYS = { ...bundle(1, policy('api', { rules: RULES })), callers: { mode: 'enforce', keys: { from: ['bearer'] } } }
const PLAIN = bundle(1, policy('api', { rules: [bucketRule('all', [], 5)] }))

describeInBrowser('the list of keys', () => {
  test('has who issued each, why, its labels, when it expires, and its state', async () => {
    const path = join(await scratchDirectory(), 'keys')
    const [expired, lasting, gone] = [
      sampleKey({ labels: { team: 'old' }, expiresMs: Date.now() - 60_000, createdMs: Date.now() - 3 * 86_400_000 }),
      sampleKey({ labels: { team: 'search', user: 'ada' }, reason: 'ticket \u202e4711', actor: 'grace' }),
      sampleKey({ labels: { team: 'ads' } }),
    ]
    await writeKeyFile(path, [expired.key, lasting.key, gone.key])
    const edge = await running({ bundle: READS_KEYS, env: { ...ADMIN_ENV, EDGE_KEYS_FILE: path } })
    const soon = await issue(edge.adminPort, { labels: { team: 'hackathon' }, expires_at: '1d', reason: 'a day' })
    await askAdmin(edge.adminPort, 'DELETE', `keys/${gone.key.id}?reason=leaked`, { actor: 'bob' })
    const page = await keysOf(edge.adminPort)
    const row = (id: string) => page.getByRole('row', { name: id })
    await expect.poll(() => row(lasting.key.id).textContent()).toMatch(/team=search.*user=ada.*Active.*never.*ticket \\u\{202e\}4711grace$/)
    expect(await row(expired.key.id).textContent()).toMatch(/team=old.*Expired.*ended/)
    expect(await row(soon.id).textContent()).toMatch(/team=hackathon.*! Expires soon.*in (?:1 d|23 h 5\d min)/)
    expect(await row(gone.key.id).textContent()).toMatch(/✕ Revoked.*Revoked by bob, .*: leaked$/)
    await page.getByText('4 keys').waitFor()
    // From then on it knows what the bundle reads.
    await page.getByRole('banner').getByText('bundle 1').waitFor()
    for (const text of ['Not saved', 'A restart ends keys', 'nobody reads them yet']) expect(await page.getByText(text).count()).toBe(0)
    await row(soon.id).getByRole('link', { name: soon.id }).click()
    await page.getByRole('heading', { level: 1, name: 'Key', exact: true }).waitFor()
    expect(new URL(page.url()).hash).toBe(`#/key?id=${soon.id}`)
  })

  test('says where nobody reads keys, and where a restart ends them', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await keysOf(edge.adminPort)
    await page.getByText('Keys can be issued, but nobody reads them yet: no bundle is active.').waitFor()
    await page.getByText('No keys are issued.').waitFor()
    await edge.publish(PLAIN)
    await issue(edge.adminPort, { labels: { team: 'search' }, reason: 'early' })
    await page.reload()
    await page.getByText('the active bundle has no callers.keys.').waitFor()
    await page.getByText('A restart ends keys that are not saved: there is neither EDGE_KEYS_FILE nor Redis.').waitFor()
    await page.getByRole('row', { name: 'team=search' }).getByText('Not saved').waitFor()
    await edge.publish({ ...READS_KEYS, bundle_version: 2 })
    await expect.poll(() => page.getByText('nobody reads them yet').count()).toBe(0)
  })

  test('is narrowed by labels, typed or chosen, and finds a key by its id', async () => {
    const edge = await running({ bundle: READS_KEYS, env: ADMIN_ENV })
    const both = { team: 'search', user: 'ada lovelace' }
    const keys = [both, { team: 'search', user: 'grace' }, { team: 'ads', user: 'ada lovelace' }]
    const [first, second, third] = await Promise.all(keys.map((labels) => issue(edge.adminPort, { labels, reason: 'a test' })))
    const page = await keysOf(edge.adminPort)
    await expect.poll(() => listed(page)).toEqual([first!.id, second!.id, third!.id].sort())
    await find(page, 'team=search user=ada lovelace')
    await expect.poll(() => listed(page)).toEqual([first!.id])
    const chosen = page.getByRole('list', { name: 'Only keys with' })
    await chosen.getByRole('button', { name: 'user=ada lovelace' }).click()
    await expect.poll(() => listed(page)).toEqual([first!.id, second!.id].sort())
    await page.getByRole('button', { name: 'Only user=grace' }).click()
    await expect.poll(() => listed(page)).toEqual([second!.id])
    await find(page, 'team=nobody')
    await page.getByText('No key has these labels. Values are compared exactly').waitFor()
    // Labels may name people, and browsers keep addresses.
    expect(page.url()).toBe(`http://127.0.0.1:${edge.adminPort}/#/keys`)
    await find(page, `key:${third!.id}`)
    await page.getByRole('region', { name: `Key ${third!.id}` }).waitFor()
  })

  test('refuses what is no search with a sentence, and does not keep a key that was pasted', async () => {
    const edge = await running({ bundle: READS_KEYS, env: ADMIN_ENV })
    const page = await keysOf(edge.adminPort)
    await page.getByText('No keys are issued.').waitFor()
    const { text } = sampleKey()
    for (const [typed, sentence, left] of [
      ['', 'Type LABEL=VALUE, such as team=search, or the id of a key', ''],
      ['search', 'Type LABEL=VALUE', 'search'],
      ['limit=5', 'No label has the name limit.', 'limit=5'],
      ['team=a team=b', 'team is there twice', 'team=a team=b'],
      [text, 'This is a key itself, which belongs in no search.', ''],
      [`team=${text}`, 'This is a key itself, which belongs in no search.', ''],
    ] as const) {
      await find(page, typed)
      await page.getByText(sentence).waitFor()
      await expect.poll(() => page.getByLabel('Find keys').inputValue()).toBe(left)
    }
    expect(await page.content()).not.toContain(text)
    expect(page.url()).not.toContain('edge_')
    await page.route('**/admin/v1/keys?*', (route) =>
      route.fulfill({
        status: 503,
        json: { error: { message: 'the keys are not loaded yet', type: 'server_error', code: 'store_unavailable' } },
      }),
    )
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.getByText('the keys are not loaded yet').waitFor()
    await page.unroute('**/admin/v1/keys?*')
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.getByText('No keys are issued.').waitFor()
  })

  test('of many comes in pages, and a label that few have is looked for as far as needed', async () => {
    const path = join(await scratchDirectory(), 'keys')
    const many = Array.from({ length: 50_100 }, (_, i) => sampleKey({ labels: { team: i === 0 ? 'rare' : 'search' } }).key)
    await writeKeyFile(path, many)
    const ids = many.map(({ id }) => id).sort()
    const edge = await running({ bundle: READS_KEYS, env: { ...ADMIN_ENV, EDGE_KEYS_FILE: path } })
    const page = await keysOf(edge.adminPort)
    const asked: URLSearchParams[] = []
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url())
      if (pathname === '/admin/v1/keys') asked.push(searchParams)
    })
    await expect.poll(() => listed(page)).toEqual(ids.slice(0, 50))
    await page.getByText('page 1, 50 keys, by id').waitFor()
    const [previous, next] = [page.getByRole('button', { name: 'Previous page' }), page.getByRole('button', { name: 'Next page' })]
    // Whoever goes back before a page has come is shown the one before it, and nothing of a page under the number of another.
    await page.route('**/admin/v1/keys?*after=*', () => {})
    await next.click()
    await page.getByText('Looking.').waitFor()
    expect(await listed(page)).toEqual([])
    await previous.click()
    await expect.poll(() => listed(page)).toEqual(ids.slice(0, 50))
    await page.unroute('**/admin/v1/keys?*after=*')
    await next.click()
    await expect.poll(() => listed(page)).toEqual(ids.slice(50, 100))
    await next.click()
    await expect.poll(() => listed(page)).toEqual(ids.slice(100, 150))
    await previous.click()
    await expect.poll(() => listed(page)).toEqual(ids.slice(50, 100))
    await previous.click()
    await expect.poll(() => listed(page)).toEqual(ids.slice(0, 50))
    await previous.press('Enter')
    await page.getByText('page 1, 50 keys, by id').waitFor()
    expect(await previous.getAttribute('aria-disabled')).toBe('true')
    await find(page, 'team=rare')
    await expect.poll(() => listed(page)).toEqual([many[0]!.id])
    expect(await next.count()).toBe(0)
    // A page has fifty keys, and the rest is never loaded. The API looks at 50,000 keys for one response.
    expect(asked.every((search) => Number(search.get('limit')) <= 50)).toBe(true)
    expect(asked.filter((search) => search.get('team') === 'rare').length).toBe(2)
  })
})

function issue(port: number, body: KeyRequest): Promise<NewKey> {
  return askAdmin(port, 'POST', 'keys', { body, actor: 'ada' }).then(({ json }) => json)
}

async function keysOf(port: number): Promise<Page> {
  const page = await loggedIn(port)
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
  return page
}

async function find(page: Page, text: string): Promise<void> {
  await page.getByLabel('Find keys').fill(text)
  await page.keyboard.press('Enter')
}

function listed(page: Page): Promise<readonly string[]> {
  return page.getByRole('rowheader').allTextContents()
}
