import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_ENV } from '../support/admin/admin-client.ts'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bucketRule, bundle, matching, policy } from '../support/bundles/bundles.ts'
import { describeInBrowser, loggedIn } from '../support/console/browser.ts'
import { running } from '../support/service/running.ts'

const RULE = bucketRule('per-key', ['header:x-k'], 10, 5)

describeInBrowser('the view of the bundle', () => {
  test('is empty without a bundle, and says what is wrong with its source', async () => {
    const edge = await running({ env: ADMIN_ENV })
    const page = await loggedIn(edge.adminPort)
    await page.getByRole('link', { name: 'Bundle', exact: true }).click()
    await page.getByText('None yet. Until there is one, every request gets 503.').waitFor()
    await page.getByText(`${edge.bundlePath}: there is no such file`).waitFor()
    await edge.publish(bundle(1, policy('p', { rules: [] })))
    await page.getByRole('region', { name: 'Active bundle: version 1' }).waitFor()
    await page.getByText('The first one since edge was started').waitFor()
    await page.getByText('there is no such file').waitFor({ state: 'detached' })
  })

  test('shows what the active one changed, as it is applied', async () => {
    const old = policy('old', { selector: { pathPrefix: '/old' }, rules: [RULE] })
    const edge = await running({
      bundle: {
        ...bundle(1, old, policy('api', { mode: 'shadow', rules: [RULE, bucketRule('gone', [], 3)] })),
        prices: { main: { '*': { input: 1, output: 8 } } },
      },
      env: { ...ADMIN_ENV, EDGE_BACKEND_HOSTS: 'a.example' },
    })
    const page = await bundlesOf(edge.adminPort)
    await page.getByRole('region', { name: 'Active bundle: version 1' }).waitFor()
    await edge.publish({
      ...bundle(2, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 20, 5)] }), policy('fresh', { rules: [] })),
      prices: { main: { '*': { input: 2, output: 8 } } },
      backends: { a: { url: 'https://a.example' } },
      usage: { labels: ['header:x-team', 'llm:model'] },
    })
    const changes = page.getByRole('list', { name: 'Policies that changed' })
    const api = changes.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'api' }) })
    await api.getByText('~ changed').first().waitFor()
    expect(await api.locator('.fields > div').allTextContents()).toEqual([
      'modeshadow → enforce',
      'algorithm_config.burst10 → 20',
      expect.stringMatching(/^limit_keys/),
      expect.anything(),
      expect.anything(),
      expect.anything(),
      expect.anything(),
    ])
    await changes.getByText('− removed').getByText('removed').first().waitFor()
    await changes.getByRole('link', { name: 'fresh' }).waitFor()
    const prices = page.getByRole('list', { name: 'Prices that changed' })
    expect(await prices.locator('.fields > div').allTextContents()).toEqual(['input1 → 2'])
    await page.getByText('1 policy added, 1 removed, 1 changed, 0 unchanged').waitFor()
    await page.getByText('1 policy added, 1 removed, 1 changed; 1 price changed; backends or routes changed; usage changed').waitFor()
    await page.getByRole('heading', { name: 'Backends and routes' }).waitFor()
    expect(await page.locator('h3:text("Backends and routes") + .fields > div').allTextContents()).toEqual([
      'backends.a.urlhttps://a.example',
    ])
    expect(await page.locator('h3:text("Usage") + .fields > div').allTextContents()).toEqual(['labels["header:x-team","llm:model"]'])
    await changes.getByRole('link', { name: 'api' }).click()
    await page.getByRole('region', { name: 'api' }).waitFor()
  })

  test('lists the last ten with date and zone, source and number of policies, and shows each', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    for (let version = 2; version <= 11; version++) await edge.publish(bundle(version, policy(`p${version}`, { rules: [] })))
    const page = await bundlesOf(edge.adminPort, '')
    const rows = page.getByRole('group', { name: 'The last bundles, the newest first' }).locator('tbody').getByRole('row')
    await expect.poll(() => rows.count()).toBe(10)
    expect(await rows.getByRole('link').allTextContents()).toEqual(Array.from({ length: 10 }, (_, i) => `version ${11 - i}`))
    await expect
      .poll(() => rows.first().textContent())
      .toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+5:30version 11 ✓ active1 policy added, 1 removed1 policy/)
    await expect.poll(() => rows.last().textContent()).toContain(`from ${edge.bundlePath}`)
    await page.getByRole('link', { name: 'version 5' }).click()
    const facts = page.getByRole('region', { name: 'Version 5', exact: true })
    await facts.getByText(/^JSON, [\d,]+ bytes$/).waitFor()
    await facts.getByText(edge.bundlePath).waitFor()
    expect(new URL(page.url()).hash).toBe('#/bundle?version=5')
    await expect.poll(() => page.evaluate('document.activeElement.className')).toContain('chosen')
    await page.getByRole('link', { name: 'Changes from it to the active 11' }).click()
    const changes = page.getByRole('region', { name: 'What changed from version 5 to 11' })
    await changes.getByText('+ added').waitFor()
    await changes.getByRole('link', { name: 'p11' }).waitFor()
    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle?version=1`)
    await page.getByText('Version 1 is not among the last ten bundles').waitFor()
  })

  test('shows texts and the lines that differ, with credentials hidden', async () => {
    const text = (version: number, burst: number, secret: string): string => `# of the platform team
bundle_version: ${version}
policies:
  - id: api
    spec:
      rules:
        - name: vip
          limit_keys: ["header:x-k"]
          match: { "header:authorization": "Bearer ${secret}" }
          algorithm: token_bucket
          algorithm_config: { burst: ${burst}, tokens_per_second: 1 }
`
    const edge = await running({ bundle: text(1, 10, 'the-first-secret'), fileName: 'limits.yaml', env: ADMIN_ENV })
    await edge.publish(text(2, 20, 'the-first-secret'))
    await edge.publish(text(3, 20, 'the-second-secret'))
    const page = await bundlesOf(edge.adminPort, 'version=1&show=text')
    const first = page.getByRole('group', { name: 'Text of version 1' })
    await first.waitFor()
    await expect.poll(() => linesOf(first)).toEqual(expect.arrayContaining([' 1# of the platform team', ' 2bundle_version: 1']))
    expect((await linesOf(first))[8]).toMatch(/^ 9 {10}match: \{ "header:authorization": "?[0-9a-f]{16}"? \}$/)
    await page.getByText('1 credential is shown as a digest.').waitFor()

    await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle?version=2&show=lines`)
    const since = page.getByRole('group', { name: 'Lines that differ from version 1 to 2' })
    await since.waitFor()
    const changed = async (view: Locator): Promise<readonly string[]> => (await linesOf(view)).filter((line) => /[−+]/.test(line))
    await expect
      .poll(() => changed(since))
      .toEqual([
        ' 2  −bundle_version: 1',
        '   2+bundle_version: 2',
        '11  −          algorithm_config: { burst: 10, tokens_per_second: 1 }',
        '  11+          algorithm_config: { burst: 20, tokens_per_second: 1 }',
      ])
    expect(await since.locator('del').count()).toBe(2)
    await page.getByRole('link', { name: 'Lines from it to the active 3' }).click()
    const toActive = page.getByRole('group', { name: 'Lines that differ from version 2 to 3' })
    await toActive.waitFor()
    await expect
      .poll(async () => (await changed(toActive)).map((line) => line.slice(0, 30)))
      .toEqual([
        expect.stringContaining('−bundle_version: 2'),
        expect.stringContaining('+bundle_version: 3'),
        expect.stringContaining('−          match:'),
        expect.stringContaining('+          match:'),
      ])
    expect(await page.content()).not.toMatch(/the-(first|second)-secret/)
    expect(edge.logged('bundle_text_read')).toEqual([])
  })

  test('stays usable with a text of many megabytes, and lays out JSON that is on one line', async () => {
    const policies = Array.from({ length: 4000 }, (_, i) =>
      policy(`policy-${i}`, { rules: [bucketRule('per-key', ['header:x-k'], 10 + i)] }),
    )
    const notes = { long: 'x'.repeat(2_000_000) }
    const edge = await running({ bundle: { ...bundle(1, ...policies), metadata: notes }, env: ADMIN_ENV })
    await edge.publish({ ...bundle(2, ...policies.with(2000, policy('another', { rules: [] }))), metadata: notes })
    const page = await bundlesOf(edge.adminPort, 'version=2&show=text')
    const text = page.getByRole('group', { name: 'Text of version 2' })
    await text.waitFor()
    await page.getByText('The JSON is shown with line breaks that it does not have.').waitFor()
    await expect
      .poll(async () => (await linesOf(text)).slice(0, 3))
      .toEqual([expect.stringMatching(/^ *1\{$/), expect.stringMatching(/2 {2}"bundle_version": 2,$/), expect.anything()])
    expect(await text.locator('.line').count()).toBeLessThan(150)
    await text.evaluate((element: unknown) => ((element as { scrollTop: number }).scrollTop = 1e9))
    await expect.poll(async () => (await linesOf(text)).at(-1)).toMatch(/\d\}$/)
    await page.getByRole('link', { name: 'Lines since 1' }).click()
    const difference = page.getByRole('group', { name: 'Lines that differ from version 1 to 2' })
    await difference.waitFor()
    const added = async (): Promise<readonly string[]> => (await linesOf(difference)).filter((line) => line.includes('+')).slice(0, 2)
    await expect
      .poll(added)
      .toEqual([expect.stringMatching(/\+ {2}"bundle_version": 2,$/), expect.stringMatching(/\+ {6}"id": "another",$/)])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(1280)
  })

  test('says so where texts differ in too many lines, and lists what changed a part at a time', async () => {
    const many = (burst: number) => Array.from({ length: 2500 }, (_, i) => policy(`p${i}`, { rules: [bucketRule('r', [], burst + i)] }))
    const edge = await running({ bundle: bundle(1, ...many(10)), env: ADMIN_ENV })
    await edge.publish(bundle(2, ...many(5000)))
    const page = await bundlesOf(edge.adminPort, 'version=2&show=lines')
    await page.getByText('The texts differ in too many lines to list them.').waitFor()
    await page.getByRole('link', { name: 'Changes since 1' }).click()
    const changes = page.getByRole('list', { name: 'Policies that changed' }).locator('> li')
    await expect.poll(() => changes.count()).toBe(50)
    await page.getByRole('button', { name: 'Show more than 50' }).click()
    await expect.poll(() => changes.count()).toBe(100)
    await page.getByText('The list is incomplete; the counts are not.').waitFor()
  })

  test('says how to go back, with a command to copy', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [] })), env: ADMIN_ENV })
    await edge.publish(bundle(2))
    const page = await bundlesOf(edge.adminPort)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('region', { name: 'Active bundle: version 2' }).waitFor()
    const first = page.getByRole('link', { name: 'version 1' })
    await first.waitFor()
    expect(await page.getByText('Go back to the policies').count()).toBe(0)
    await first.click()
    const hint = page.getByRole('region', { name: 'Go back to the policies of version 1' })
    const command = `edge rollback --to 1 --publish ${edge.bundlePath} --reason 'why'`
    expect(await hint.getByLabel('Command that goes back to version 1').inputValue()).toBe(command)
    await hint.getByText('It publishes the policies of version 1 under version 3').waitFor()
    await hint.getByRole('button', { name: 'Copy' }).click()
    await hint.getByText('Copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command)
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await hint.getByRole('button', { name: 'Copy' }).click()
    await hint.getByText('Selected: press Ctrl+C').waitFor()
    await expect.poll(() => page.evaluate('document.getSelection().toString()')).toBe(command)
    await edge.publish(JSON.stringify({ bundle_version: 7, policies: [{ id: 1 }] }))
    await hint.getByText('It publishes the policies of version 1 under version 8').waitFor()
  })

  test('says what remains to be done where bundles are signed or come from a URL', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    await edge.publish(bundle(2))
    const page = await loggedIn(edge.adminPort)
    const source = {
      path: null,
      url: 'https://config.example/limits.json',
      cached: false,
      signature_required: false,
      problem: null,
      refused: null,
    }
    const answer = async (changed: Partial<typeof source>): Promise<Locator> => {
      await page.unrouteAll({ behavior: 'wait' })
      await page.route('**/admin/v1/bundle', async (route) => {
        const report = await (await route.fetch()).json()
        await route.fulfill({ json: { ...report, source: { ...source, ...changed } } })
      })
      await page.goto(`http://127.0.0.1:${edge.adminPort}/#/bundle?version=1`)
      await page.reload()
      const hint = page.getByRole('region', { name: 'Go back to the policies of version 1' })
      await hint.waitFor()
      return hint
    }
    const url = await answer({})
    expect(await url.getByRole('textbox').inputValue()).toBe('edge rollback --to 1 > bundle-3.json')
    await url.getByText('Then put the file where https://config.example/limits.json comes from.').waitFor()
    const signed = await answer({ signature_required: true })
    expect(await signed.getByRole('textbox').inputValue()).toBe('edge rollback --to 1 > bundle-3.json && edge sign --key KEY bundle-3.json')
    await signed.getByText('Then put the file and its signature where https://config.example/limits.json comes from').waitFor()
    const odd = { url: null as unknown as string, path: "/srv/it's here/limits.json" as unknown as null }
    expect(await (await answer(odd)).getByRole('textbox').inputValue()).toBe(
      String.raw`edge rollback --to 1 --publish '/srv/it'\''s here/limits.json' --reason 'why'`,
    )
  })

  test('keeps what changed, and lists the problems of a bundle that is refused, with line and column', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    await edge.publish(bundle(2, policy('p', { rules: [] })))
    const page = await bundlesOf(edge.adminPort)
    await page.getByRole('list', { name: 'Policies that changed' }).waitFor()
    await replaceFile(
      edge.bundlePath,
      JSON.stringify({ bundle_version: 3, policies: Array.from({ length: 60 }, () => ({ id: '<b>x</b>' })) }),
    )
    await page.getByText('Version 3 was refused. Version 2 stays active.').waitFor()
    const problems = page.getByRole('list', { name: 'Problems' }).getByRole('listitem')
    await expect.poll(() => problems.count()).toBe(51)
    expect(await problems.first().textContent()).toMatch(/^policies\[0\].*\(line 1, column \d+\)$/)
    expect(await problems.last().textContent()).toMatch(/^and [\d,]+ more problems/)
    expect(await page.locator('main b').count()).toBe(0)
    await page.getByRole('list', { name: 'Policies that changed' }).waitFor()
    await page.getByRole('link', { name: 'Bundles that were refused in the last hour' }).click()
    await page.getByRole('button', { name: 'bundle_refused 1', pressed: true }).waitFor()
    await page
      .getByRole('row')
      .getByText(/policies\[0\].*line 1, column/)
      .first()
      .waitFor()
    await page.goBack()
    await edge.publish(bundle(4))
    await page.getByText('was refused.').waitFor({ state: 'detached' })
  })

  test('shows HTML in names and values as text', async () => {
    const html = '<img src=x onerror=alert(1)>'
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    const rules = [matching({ 'header:x-v': html }, bucketRule(html, [], 5))]
    await edge.publish(bundle(2, policy(html, { rules })))
    const page = await bundlesOf(edge.adminPort)
    const changes = page.getByRole('list', { name: 'Policies that changed' })
    await changes.getByRole('link', { name: html }).waitFor()
    await expect.poll(() => changes.getByText(html).count()).toBe(3)
    for (const look of ['Text', 'Lines since 1']) {
      await page.getByRole('link', { name: look }).click()
      await page.locator('.line').getByText(html).first().waitFor()
    }
    expect(await page.locator('main img').count()).toBe(0)
  })
})

async function bundlesOf(port: number, query = ''): Promise<Page> {
  const page = await loggedIn(port, { timezoneId: 'Asia/Kolkata' })
  await page.goto(`http://127.0.0.1:${port}/#/bundle${query === '' ? '' : `?${query}`}`)
  return page
}

/** The lines that are in the page, as they are read. */
function linesOf(view: Locator): Promise<readonly string[]> {
  return view.locator('.line').allTextContents()
}
