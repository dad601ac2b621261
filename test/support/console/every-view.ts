import type { Page, Request } from 'playwright-core'
import { until } from '../until.ts'

/** Opens one view after the other, as the navigation lists them, and looks at each when it has got and drawn what it shows. */
export async function inEveryView(page: Page, look: (title: string) => Promise<void>): Promise<void> {
  const open = new Set<Request>()
  const isAnswer = (request: Request): boolean => request.url().includes('/admin/v1/') && !request.url().includes('/admin/v1/events?')
  page.on('request', (request) => isAnswer(request) && open.add(request))
  for (const event of ['requestfinished', 'requestfailed'] as const) page.on(event as 'requestfinished', (request) => open.delete(request))
  const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
  await links.first().waitFor()
  for (const title of await links.allTextContents()) {
    await links.getByText(title, { exact: true }).click()
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    await drawn(page)
    await until(() => open.size === 0)
    await drawn(page)
    await look(title)
  }
}

async function drawn(page: Page): Promise<void> {
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))')
}
