import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { markdownFiles } from '../docs/markdown.ts'
import { describeInBrowser, newPage } from '../support/console/browser.ts'
import { builtSite, deadLinksOf, pagesOf, servingFiles } from '../support/packaging/built-site.ts'
import { describeWithRegistry } from '../support/packaging/npm.ts'
import { scratchDirectory, thisTest } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'

const BASE = '/edge/'
const WIDTHS = [
  ['a desktop', { width: 1280, height: 800 }],
  ['a phone', { width: 375, height: 700 }],
] as const
const ON_DESKTOP = ['index', 'pages', 'conformance', 'console', 'cookbook', 'gateways/index', 'metrics'].map(
  (name) => `${BASE}${name}.html`,
)

describeWithRegistry('the site that `npm run site` builds', () => {
  const suite = thisSuite()
  let folder: string
  let origin: string
  let pages: string[]

  beforeAll(async () => {
    folder = await builtSite(suite, BASE)
    origin = await servingFiles(folder, suite)
    pages = pagesOf(folder)
  }, 900_000)

  test('has every page of docs/, and those beside it', () => {
    expect(pages.length).toBeGreaterThan(markdownFiles('docs').length)
    expect(pages).toEqual(
      expect.arrayContaining(['index', 'pages', 'policy/rules', 'project/security'].map((name) => `${BASE}${name}.html`)),
    )
  })

  test('has no link to a page, a file or a heading that does not exist', () => {
    const dead = pages.flatMap((page) => deadLinksOf(folder, page).map((link) => `${page}: ${link}`))
    expect(dead).toEqual([])
  })

  describeInBrowser('in a browser', () => {
    // What does not fit a phone is found there, on all pages. They are shown without their scripts, which take most of the time and would only show the same
    // once more. A desktop shows the same pages with more beside them, so that some are enough.
    test.each(WIDTHS)('fits %s, and asks nobody else for anything', { timeout: 900_000 }, async (width, viewport) => {
      const page = await newPage({ viewport, javaScriptEnabled: width === 'a desktop' })
      const problems = problemsOf(page, origin)
      const wide: string[] = []
      for (const path of width === 'a phone' ? pages : ON_DESKTOP) {
        await page.goto(`${origin}${path}`)
        await page.locator('h1').first().waitFor()
        const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')
        if (overflow > 0) wide.push(`${path}: ${overflow} pixels`)
      }
      expect(wide).toEqual([])
      expect(problems).toEqual([])
    })

    test.each(WIDTHS)('finds on %s what somebody looks for', async (_width, viewport) => {
      const page = await newPage({ viewport })
      const problems = problemsOf(page, origin)
      await page.goto(`${origin}${BASE}`)
      await page.getByRole('button', { name: 'Search' }).click()
      await page.getByRole('searchbox').fill('EDGE_DRAIN_MS')
      await page.getByRole('option').filter({ hasText: 'Probes, startup and shutdown' }).first().click()
      await page.getByRole('heading', { level: 1, name: 'Probes, startup and shutdown' }).waitFor()
      expect(page.url()).toContain('/edge/operations/lifecycle.html')
      expect(problems).toEqual([])
    })

    test.each(WIDTHS)('on %s, names of settings are whole, and a table that is too wide for them scrolls', async (_width, viewport) => {
      const page = await newPage({ viewport, javaScriptEnabled: false })
      await page.goto(`${origin}${BASE}configuration.html`)
      const broken = await page.evaluate<string[]>(`Array.from(document.querySelectorAll('td:first-child > code'))
        .filter((name) => name.getClientRects().length > 1).map((name) => name.textContent)`)
      expect(broken).toEqual([])
    })

    test('leads from page to page, and to files as they are in the repository', async () => {
      const page = await newPage()
      const problems = problemsOf(page, origin)
      await page.goto(`${origin}${BASE}`)
      await page.getByRole('link', { name: 'All pages' }).click()
      await page.getByRole('heading', { level: 1, name: 'Documentation' }).waitFor()
      await page.getByRole('main').getByRole('link', { name: 'HAProxy' }).click()
      await page.getByRole('heading', { level: 1, name: 'HAProxy' }).waitFor()
      await page.getByRole('main').getByRole('link', { name: 'haproxy.cfg' }).first().click()
      await page.getByText('frontend').first().waitFor()
      expect(problems).toEqual([])
    })
  })
})

test('links that lead nowhere are found, and others are not', async () => {
  const folder = await scratchDirectory(thisTest)
  await mkdir(join(folder, 'a'))
  const links = ['../b.html#here', '/b.html', '/b.html#gone', 'gone.html', '#own', '#gone', 'https://elsewhere.example/', '/a/']
  await writeFile(
    join(folder, 'a/index.html'),
    `<h1 id="own">${links.map((link) => `<a class="x" href="${link}">`).join('')}<img alt="" src="/no.png">`,
  )
  await writeFile(join(folder, 'b.html'), '<p tabindex="-1" id="here">')
  expect(pagesOf(folder).sort()).toEqual(['/a/index.html', '/b.html'])
  expect(deadLinksOf(folder, '/a/index.html')).toEqual(['/b.html#gone', 'gone.html', '#gone', '/no.png'])
})

/** Requests to other hosts, and those that fail, of all that the page sends from now on. */
function problemsOf(page: Page, origin: string): string[] {
  const problems: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}${BASE}`) && !request.url().startsWith('data:')) problems.push(`elsewhere: ${request.url()}`)
  })
  page.on('response', (response) => {
    if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`)
  })
  return problems
}
