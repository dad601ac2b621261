import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import type { KeyJson, KeyRequest } from '../../src/admin/api/key-types.ts'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { GoodCallers } from '../support/callers/good-callers.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { focused, tabTo } from '../support/console/keyboard.ts'
import { sampleKey } from '../support/keys/sample-keys.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxying } from '../support/proxy/proxy.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

const RULES = [
  bucketRule('per-team', ['caller:team'], 5, 0.0001),
  bucketRule('per-key', ['caller:id'], 3, 0.0001),
  bucketRule('per-address', ['ip:address'], 99, 0.0001),
]
const BUNDLE = { ...bundle(1, policy('api', { rules: RULES })), callers: { keys: { from: ['header:x-api-key'] } } }
const LABELS = { team: 'search', user: 'ada' }

describeInBrowser('a key', () => {
  test('is shown with its labels, its limits, its history and its caller', async () => {
    const { edge, page, key } = await opened({ expires_at: '90d' })
    const facts = page.getByRole('region', { name: `Key ${key.id}` })
    await expect
      .poll(() => facts.textContent())
      .toMatch(/✓ Active ! Not saved.*team=search.*user=ada.*in (?:90 d|89 d 23 h).*ticket 4711grace/)
    await page.getByText('This key is not saved. A restart ends keys that are not saved').waitFor()
    expect(await page.locator('body').textContent()).not.toContain(key.digest)
    const silent = page.getByRole('region', { name: 'Nothing is counted now' })
    await expect
      .poll(() => silent.getByRole('rowheader').allTextContents())
      .toEqual(['api · per-teamcaller:team search', `api · per-keycaller:id key:${key.id}`])
    const history = page.getByRole('region', { name: 'History' })
    await history.getByText('key issued').waitFor()
    await history.getByText('ticket 4711').waitFor()
    await facts.getByRole('link', { name: `caller:id=key:${key.id}` }).click()
    await page.getByRole('heading', { level: 1, name: 'Caller', exact: true }).waitFor()
    const asked = page.locator('.asked')
    await expect
      .poll(() => asked.textContent())
      .toMatch(new RegExp(`caller:id key:${key.id}caller:team searchIssued key ${key.id} ✓ Active`))
    expect(page.url()).not.toContain('search')
    await asked.getByRole('link', { name: key.id }).click()
    await facts.waitFor()
    expect(edge.logged('key_created')).toHaveLength(1)
  })

  test('gets other labels and another end after a preview of what changes', async () => {
    const { edge, page, key } = await opened({})
    await page.getByRole('button', { name: 'Change…' }).click()
    const form = page.getByRole('dialog', { name: `Change key ${key.id}` })
    await form.getByLabel('Reason').fill('moved')
    await form.getByRole('button', { name: 'Preview…' }).click()
    await form.getByRole('alert').getByText('Nothing would change.').waitFor()
    await form.getByLabel('Value 1').fill('ads')
    await form.getByRole('button', { name: 'Remove label 2' }).click()
    await form.getByRole('button', { name: 'Add a label' }).click()
    await form.getByLabel('Name 2').fill('plan')
    await form.getByLabel('Value 2').fill('free')
    await form.getByLabel('30 d').check()
    await form.getByRole('button', { name: 'Preview…' }).click()
    const preview = page.getByRole('dialog', { name: 'Change the key?' })
    await expect.poll(() => preview.getByRole('listitem').allTextContents()).toEqual(['plan=free', 'team=search → team=ads', 'user=ada'])
    expect(await preview.locator('del').allTextContents()).toEqual(['team=search', 'user=ada', 'never'])
    expect(await preview.locator('ins').last().textContent()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/)
    // Going back loses nothing of what was typed, and nothing has changed yet.
    await page.keyboard.press('Escape')
    await preview.waitFor({ state: 'detached' })
    expect(await form.getByLabel('Value 1').inputValue()).toBe('ads')
    expect((await askAdmin(edge.adminPort, 'GET', `keys/${key.id}`)).json).toEqual(key)
    await form.getByRole('button', { name: 'Preview…' }).click()
    await preview.getByRole('button', { name: 'Change it' }).click()
    await page.getByText('The key is changed.').waitFor()
    const changed = (await askAdmin(edge.adminPort, 'GET', `keys/${key.id}`)).json
    expect(changed).toMatchObject({ labels: { plan: 'free', team: 'ads' }, edited: { actor: 'ada', reason: 'moved' } })
    expect(Date.parse(changed.expires_at) - Date.now()).toBeGreaterThan(29 * 86_400_000)
    const facts = page.getByRole('region', { name: `Key ${key.id}` })
    await expect.poll(() => facts.textContent()).toMatch(/plan=free.*team=ads.*in (?:30 d|29 d 23 h).*Changed by ada, .*: moved/)
    await page.getByRole('region', { name: 'History' }).getByText('key changed').waitFor()
    await page.getByRole('rowheader', { name: 'caller:team ads' }).waitFor()
  })

  test('is changed nowhere if the API refuses, which is said beside the field or in the preview', async () => {
    const { edge, page, key } = await opened({})
    await page.getByRole('button', { name: 'Change…' }).click()
    const form = page.getByRole('dialog', { name: `Change key ${key.id}` })
    await form.getByLabel('Reason').fill('moved')
    await form.getByLabel('Name 1').fill('after')
    const confirm = page.getByRole('button', { name: 'Change it' })
    await form.getByRole('button', { name: 'Preview…' }).click()
    await confirm.click()
    await form.getByText('labels: expected a name of 1 to 64 letters').waitFor()
    await expect.poll(() => confirm.count()).toBe(0)
    await form.getByLabel('Name 1').fill('team')
    await form.getByLabel('Value 1').fill('ads')
    await form.getByRole('button', { name: 'Preview…' }).click()
    await askAdmin(edge.adminPort, 'DELETE', `keys/${key.id}?reason=meanwhile`)
    await confirm.click()
    await page.getByRole('dialog', { name: 'Change the key?' }).getByRole('alert').getByText('is revoked, and stays so').waitFor()
    expect((await askAdmin(edge.adminPort, 'GET', `keys/${key.id}`)).json.labels).toEqual(LABELS)
  })

  test('is revoked for good, with a reason, by keyboard alone', async () => {
    const { edge, page, key } = await opened({})
    await tabTo(page, 'Revoke…')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: `Revoke key ${key.id}?` })
    await dialog.getByText('It cannot be undone: a revoked key stays revoked.').waitFor()
    await expect.poll(() => focused(page)).toBe('Reason')
    await page.keyboard.press('Enter')
    // Without a reason the browser asks for one.
    expect(await dialog.isVisible()).toBe(true)
    await page.keyboard.type('leaked')
    await page.keyboard.press('Enter')
    await page.getByText('The key is revoked.').waitFor()
    const facts = page.getByRole('region', { name: `Key ${key.id}` })
    await expect.poll(() => facts.textContent()).toMatch(/✕ Revoked.*Revoked by ada, .*: leaked/)
    for (const name of ['Change…', 'Revoke…']) await page.getByRole('button', { name }).waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('Key')
    await page.getByRole('region', { name: 'History' }).getByText('key revoked').waitFor()
    expect(edge.logged('key_revoked')).toMatchObject([{ id: key.id, actor: 'ada', reason: 'leaked' }])
    // A second key with the same labels takes its place.
    await page.getByRole('button', { name: 'New key with these labels' }).click()
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await expect.poll(() => page.getByLabel('Value 1').inputValue()).toBe('search')
    await expect.poll(() => page.getByLabel('Value 2').inputValue()).toBe('ada')
    expect(page.url()).toBe(`http://127.0.0.1:${edge.adminPort}/#/keys`)
  })

  test('takes its streams along when it is revoked, and the page says how many', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write('data: 1\n\n')
    })
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const { id, key } = (await askAdmin(edge.adminPort, 'POST', 'keys', { body: { labels: LABELS, reason: 'a test' } })).json
    const streams = [1, 2].map(() => new StreamClient(edge.port, '/events', '', [['X-Api-Key', key]]))
    for (const stream of streams) await stream.untilText('data: 1')
    const page = await loggedIn(edge.adminPort)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/key?id=${id}`)
    await page.getByRole('button', { name: 'Revoke…' }).click()
    const dialog = page.getByRole('dialog', { name: `Revoke key ${id}?` })
    await dialog.getByLabel('Reason').fill('leaked')
    await dialog.getByRole('button', { name: 'Revoke it' }).click()
    await page.getByText('The key is revoked. 2 streams of it were ended.').waitFor()
    await Promise.all(streams.map((stream) => stream.untilClosed()))
  })

  test('that does not exist, or is the key itself, gets a sentence', async () => {
    const { edge, page } = await opened({})
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    const { text } = sampleKey()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/key?id=${text}`)
    await page.getByText('No key is chosen. The id of a key has twelve hexadecimal digits').waitFor()
    expect(asked.filter((url) => url.includes('/admin/v1/') && url.includes(text))).toEqual([])
    expect(await page.locator('body').textContent()).not.toContain(text)
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/key?id=0123456789ab`)
    await page.getByText('there is no key "0123456789ab"').waitFor()
    await page.getByText('This instance remembers no change of this key.').waitFor()
  })

  test('is a link where other views name it', async () => {
    const { edge, page, key } = await opened({})
    const href = `#/key?id=${key.id}`
    await page.getByRole('link', { name: 'Changes' }).click()
    const row = page.getByRole('row', { name: 'key issued' })
    expect(await row.getByRole('link', { name: key.id }).getAttribute('href')).toBe(href)
    await page.getByRole('button', { name: 'keys 1' }).click()
    await expect.poll(() => page.getByRole('row').count()).toBe(2)
    await page.getByRole('link', { name: 'Events' }).click()
    await expect.poll(() => page.getByRole('row', { name: 'key_created' }).textContent()).toContain(`keykey${key.id}`)
    await page.getByRole('link', { name: 'Explain' }).click()
    await page.getByLabel('URI').fill('/x')
    await page.getByLabel('Header fields').fill(`X-Api-Key: edge_${key.id}`)
    await page.getByRole('button', { name: 'Explain' }).click()
    const verdict = page.getByRole('region', { name: 'Verdict' })
    expect(await verdict.getByRole('link', { name: `key:${key.id}` }).getAttribute('href')).toBe(href)
    const covering = page.getByRole('region', { name: 'Policies that cover it' })
    expect(await covering.getByRole('link', { name: `key:${key.id}` }).getAttribute('href')).toBe(href)
    await page.getByLabel('Header fields').fill('X-Api-Key: edge_revoked')
    await page.getByRole('button', { name: 'Explain' }).click()
    await verdict.getByText('Caller: not known, revoked').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('searchbox', { name: 'Find a caller' }).fill(`key:${key.id}`)
    await page.keyboard.press('Enter')
    await page.locator('.asked').getByText('✓ Active').waitFor()
    await page.getByRole('searchbox', { name: 'Find a caller' }).fill('caller:id=key:0123456789ab')
    await page.keyboard.press('Enter')
    await page.locator('.asked').getByText('there is no key "0123456789ab"').waitFor()
    expect(edge.logged('key_created')).toHaveLength(1)
  })
})

/** The view of a key that somebody else has issued. */
async function opened(wish: Partial<KeyRequest>): Promise<{ edge: Edge; page: Page; key: KeyJson }> {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, callerReaderOf: () => new GoodCallers() })
  const body: KeyRequest = { labels: LABELS, reason: 'ticket 4711', ...wish }
  const { key: _, ...key } = (await askAdmin(edge.adminPort, 'POST', 'keys', { body, actor: 'grace' })).json
  const page = await loggedIn(edge.adminPort, { timezoneId: 'UTC' }, 'ada')
  await page.goto(`http://127.0.0.1:${edge.adminPort}/#/key?id=${key.id}`)
  await page.getByRole('region', { name: `Key ${key.id}` }).waitFor()
  return { edge, page, key }
}
