import { hash } from 'node:crypto'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, matching, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { keptAndShown } from '../support/console/kept.ts'
import { focused, tabTo } from '../support/console/keyboard.ts'
import type { Edge } from '../support/service/edge.ts'
import { running } from '../support/service/running.ts'

const RULES = [
  bucketRule('team', ['caller:team'], 2, 0.001),
  matching({ 'caller:plan': ['free'] }, bucketRule('free', ['caller:id'], 9, 0.001)),
]
const BUNDLE = { ...bundle(1, policy('api', { rules: RULES })), callers: { mode: 'enforce', keys: { from: ['bearer'] } } }
const DAY_MS = 86_400_000

describeInBrowser('a key that is issued', () => {
  test('is shown once, to be copied, and nothing keeps it', async () => {
    const { edge, page } = await opened(['clipboard-read', 'clipboard-write'])
    await fillForm(page, [['team', 'search']])
    const dialog = await issue(page)
    const key = await dialog.locator('.secret').innerText()
    expect(key).toMatch(/^edge_[\w-]{43}$/)
    await dialog.getByText('It is shown only here: when this dialog closes, nobody can read it again.').waitFor()
    await dialog.getByText('This key is not saved. A restart ends keys that are not saved').waitFor()
    await dialog.getByRole('button', { name: 'Copy the key' }).click()
    await dialog.getByText('Copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key)
    expect(page.url()).toBe(`http://127.0.0.1:${edge.adminPort}/#/keys`)
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByText('If nobody has copied it, revoke it and issue another one.').waitFor()
    expect(await keptAndShown(page)).not.toContain(key)
    await page.getByRole('row', { name: 'team=search' }).waitFor()
    // Neither a view that is opened later nor the same one, loaded again, has it.
    for (const view of ['Changes', 'Events', 'Keys']) {
      await page.getByRole('link', { name: view, exact: true }).click()
      await page.getByText('a test').first().waitFor()
      expect(await keptAndShown(page)).not.toContain(key)
    }
    await page.reload()
    await page.getByRole('row', { name: 'team=search' }).waitFor()
    expect(await keptAndShown(page)).not.toContain(key)
    expect(JSON.stringify(edge.log)).not.toContain(key)
    const [{ digest }] = (await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys
    expect(digest).toBe(hash('sha256', key, 'base64url'))
  })

  test.each([
    ['Escape', (page: Page) => page.keyboard.press('Escape')],
    ['another view', (page: Page) => page.evaluate(`location.hash = '#/events'`)],
    ['another page', (page: Page) => page.evaluate(`dispatchEvent(new Event('pagehide'))`)],
  ])('is gone with its dialog, however that is left: %s', async (_how, leave) => {
    const { page } = await opened()
    await fillForm(page, [['team', 'search']])
    const dialog = await issue(page)
    const key = await dialog.locator('.secret').innerText()
    expect(key).toMatch(/^edge_/)
    await leave(page)
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
    expect(await keptAndShown(page)).not.toContain(key)
    await page.evaluate(`location.hash = '#/keys'`)
    await page.getByRole('row', { name: 'team=search' }).waitFor()
    expect(await keptAndShown(page)).not.toContain(key)
  })

  test('has the labels, the end and the reason of the form; labels that rules read are suggested', async () => {
    const { edge, page } = await opened()
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByText('Rules of the active bundle read plan, team.').waitFor()
    const names = await page
      .locator('datalist option')
      .evaluateAll((options) => options.map((option) => (option as { value?: string }).value))
    expect(names).toEqual(['plan', 'team'])
    const first = async (): Promise<number | undefined> => {
      const [key] = (await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys
      await askAdmin(edge.adminPort, 'DELETE', `keys/${key.id}?reason=over`)
      return key.expires_at === null ? undefined : Date.parse(key.expires_at)
    }
    await page.getByLabel('Name 1').fill(' team ')
    await page.getByLabel('Value 1').fill('search')
    for (const [name, value] of [
      ['user', 'ada'],
      ['plan', 'free'],
    ]) {
      await page.getByRole('button', { name: 'Add a label' }).click()
      await expect.poll(() => focused(page)).toMatch(/^Name/)
      await page.keyboard.type(name!)
      await page.keyboard.press('Tab')
      await page.keyboard.type(value!)
    }
    await page.getByRole('button', { name: 'Remove label 2' }).click()
    await expect.poll(() => focused(page)).toBe('Add a label')
    const beforeMs = Date.now()
    await page.getByLabel('30 d').check()
    await page.getByLabel('Reason').fill('ticket 4711')
    const dialog = await issue(page)
    await dialog.getByText('plan=free').waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    const { json } = await askAdmin(edge.adminPort, 'GET', 'keys')
    expect(json.keys).toMatchObject([{ labels: { plan: 'free', team: 'search' }, actor: 'ada', reason: 'ticket 4711' }])
    const endMs = (await first())!
    // The API tells times in whole seconds.
    expect(endMs).toBeGreaterThanOrEqual(beforeMs + 30 * DAY_MS - 1000)
    expect(endMs).toBeLessThanOrEqual(Date.now() + 30 * DAY_MS + 1000)
  })

  test.each([
    ['Never', undefined, null],
    ['At…', '2031-02-03T04:05:06', '2031-02-03T04:05:06.000Z'],
  ])('expires when the operator says: %s', async (choice, time, expected) => {
    const { edge, page } = await opened()
    await fillForm(page, [['team', 'search']])
    await page.getByLabel(choice).check()
    if (time !== undefined) await page.getByLabel('Time, in your time zone').fill(time)
    await issue(page)
    expect((await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys).toMatchObject([{ expires_at: expected }])
  })

  test('is refused beside the field that is wrong, and nothing is issued', async () => {
    const { edge, page } = await opened()
    await fillForm(page, [
      ['team', 'search'],
      ['team', 'ads'],
    ])
    const submit = page.getByRole('button', { name: 'Issue key' })
    await submit.click()
    await page.getByRole('group', { name: 'Labels' }).getByText('team is there twice: a key has one value for each label.').waitFor()
    await page.getByRole('button', { name: 'Remove label 2' }).click()
    await page.getByLabel('Name 1').fill('limit')
    await submit.click()
    await page.getByRole('group', { name: 'Labels' }).getByText('labels: expected a name of 1 to 64 letters').waitFor()
    await page.getByLabel('Name 1').fill('team')
    await page.getByLabel('At…').check()
    await page.getByLabel('Time, in your time zone').fill('2020-01-01T00:00:00')
    await submit.click()
    await page.getByRole('group', { name: 'Expires' }).getByText('is in the past; to end a key now, revoke it').waitFor()
    await page.getByLabel('Never').check()
    await page.getByLabel('Reason').fill('  ')
    await submit.click()
    await page
      .locator('.error')
      .getByText(/reason/i)
      .waitFor()
    await page.getByLabel('Reason').fill('a test')
    await page.route('**/admin/v1/keys', (route) => route.abort())
    await submit.click()
    await page.getByRole('alert').getByText('edge is unreachable').waitFor()
    expect((await askAdmin(edge.adminPort, 'GET', 'keys')).json.keys).toEqual([])
    await page.unroute('**/admin/v1/keys')
  })

  test('is issued, copied and put away by keyboard alone', async () => {
    const { page } = await opened()
    await tabTo(page, 'New key')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('Name 1')
    await page.keyboard.type('team')
    await tabTo(page, 'Value 1')
    await page.keyboard.type('search')
    await tabTo(page, 'Reason')
    await page.keyboard.type('a test')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: /^Key [0-9a-f]{12} is issued$/ })
    await dialog.waitFor()
    await expect.poll(() => focused(page)).toBe('Copy the key')
    // Without a clipboard the key is selected instead.
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    await page.keyboard.press('Enter')
    await dialog.getByText('Selected: press Ctrl+C or ⌘C to copy it.').waitFor()
    expect(await page.evaluate('String(getSelection())')).toBe(await dialog.locator('.secret').innerText())
    await tabTo(page, 'Done')
    await page.keyboard.press('Enter')
    await expect.poll(() => focused(page)).toBe('Keys')
  })
})

async function opened(permissions: readonly string[] = []): Promise<{ edge: Edge; page: Page }> {
  const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
  const page = await loggedIn(edge.adminPort, { permissions: [...permissions], timezoneId: 'UTC' }, 'ada')
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByText('No keys are issued.').waitFor()
  return { edge, page }
}

async function fillForm(page: Page, labels: readonly (readonly [string, string])[]): Promise<void> {
  await page.getByRole('button', { name: 'New key' }).click()
  for (const [i, [name, value]] of labels.entries()) {
    if (i > 0) await page.getByRole('button', { name: 'Add a label' }).click()
    await page.getByLabel(`Name ${i + 1}`).fill(name)
    await page.getByLabel(`Value ${i + 1}`).fill(value)
  }
  await page.getByLabel('Reason').fill('a test')
}

async function issue(page: Page) {
  await page.getByRole('button', { name: 'Issue key' }).click()
  const dialog = page.getByRole('dialog', { name: /^Key [0-9a-f]{12} is issued$/ })
  await dialog.waitFor()
  return dialog
}
