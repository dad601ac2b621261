import { expect, onTestFinished, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { Operator } from '../support/admin/operator.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, newPage } from '../support/console/browser.ts'
import { focused, tabTo } from '../support/console/keyboard.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxying } from '../support/proxy/proxy.ts'
import { until } from '../support/until.ts'

const BUNDLE = bundle(1, policy('api', { rules: [bucketRule('per-org', ['header:x-org'], 100, 0.001)] }))

describeInBrowser('an incident', () => {
  test('is handled by keyboard alone: a caller is blocked and its stream cut, the block is extended, edited and ended', async () => {
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    })
    const edge = await proxying(backend, { bundle: BUNDLE, env: ADMIN_ENV })
    const operator = new Operator(edge.adminPort)
    const stream = new StreamClient(edge.port, '/events', '', [['X-Org', 'acme']])
    onTestFinished(() => stream.abort())
    const page = await newPage()
    const { keyboard } = page
    const enter = (): Promise<void> => keyboard.press('Enter')
    const type = async (field: string | RegExp, text: string): Promise<void> => {
      await tabTo(page, field)
      await keyboard.press('Control+A')
      await keyboard.type(text)
    }

    await page.goto(`http://127.0.0.1:${edge.adminPort}/`)
    await page.locator('input[type=password]').waitFor()
    await type('Admin token', ADMIN_TOKEN)
    await type('Your name', 'ada')
    await enter()
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await tabTo(page, 'Overrides')
    await enter()
    await page.locator('h1:focus').waitFor()
    await tabTo(page, 'New override')
    await enter()

    // The form has the focus, and suggests the only rule of the policy.
    await expect.poll(() => focused(page)).toBe('Policy')
    await keyboard.type('api')
    await page.getByText('All callers of the rule').waitFor()
    await type('header:x-org', 'acme')
    await tabTo(page, 'Multiply the limit')
    await keyboard.press('ArrowLeft')
    await expect.poll(() => focused(page)).toBe('Block')
    await tabTo(page, 'Cut open streams')
    await keyboard.press('Space')
    await type('Reason', 'it floods us')
    await enter()
    await page.getByRole('dialog', { name: 'Set this override?' }).getByText('1 stream of all callers is open').waitFor()
    expect([await operator.overrides(), stream.outcome]).toEqual([[], 'open'])
    await expect.poll(() => focused(page)).toBe('Set override')
    await enter()
    await page.getByText('The override is in force.').waitFor()
    await until(() => stream.outcome !== 'open')
    await page.locator('h1:focus').waitFor()

    await tabTo(page, /^Extend Blocked: 403, open streams are cut for acme/)
    await enter()
    await page.getByRole('dialog', { name: 'Extend this override?' }).waitFor()
    await type('Reason', 'it is not over')
    await enter()
    await page.getByText(/^The override ends at/).waitFor()
    // The button that opened the dialog has the focus again.
    await expect.poll(() => focused(page)).toMatch(/^Extend Blocked/)

    await tabTo(page, /^Edit Blocked/)
    await enter()
    await page.getByRole('dialog', { name: 'Edit this override' }).getByText('What changes').waitFor()
    await tabTo(page, 'Block')
    await keyboard.press('ArrowRight')
    await expect.poll(() => focused(page)).toBe('Multiply the limit')
    await type('Multiply by', '0.5')
    await type('Reason', 'it calmed down')
    await enter()
    await page.getByRole('dialog', { name: 'Change the override?' }).waitFor()
    await tabTo(page, 'Change it')
    await enter()
    await page.getByText('The override is changed, and in force.').waitFor()
    expect(await operator.overrides()).toMatchObject([{ multiply: 0.5, edited: { actor: 'ada', reason: 'it calmed down' } }])

    await tabTo(page, /^End 0.5 × the limit for acme/)
    await enter()
    await page.getByRole('dialog', { name: 'End this override?' }).waitFor()
    await expect.poll(() => focused(page)).toBe('Reason')
    await keyboard.type('it is over')
    await enter()
    await page.getByText('The override has ended.').waitFor()
    expect(await operator.overrides()).toEqual([])
    // The row is gone, and the focus did not go with it.
    await page.locator('h1:focus').waitFor()
    await page.getByRole('table', { name: 'Overrides that have ended' }).getByText('ada: it is over').waitFor()
  })
})
