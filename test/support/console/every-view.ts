import type { Page, Request } from 'playwright-core'
import { until } from '../until.ts'

/** Opens one view after the other, the first one last, and looks at each when it has got and drawn what it shows. */
export async function inEveryView(page: Page, look: (title: string) => Promise<void>): Promise<void> {
  const open = openRequests(page)
  const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
  await links.first().waitFor()
  // Of the first one, which is shown already, requests may be under way that nobody has counted.
  const [first, ...others] = await links.allTextContents()
  for (const title of [...others, first!]) {
    await links.getByText(title, { exact: true }).click()
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    await drawn(page)
    await until(() => open.size === 0)
    await drawn(page)
    await look(title)
  }
}

/** The requests to the API that are under way, of those that are sent from now on; its stream of events never ends. */
export function openRequests(page: Page): ReadonlySet<Request> {
  const open = new Set<Request>()
  const isAnswer = (request: Request): boolean => request.url().includes('/admin/v1/') && !request.url().includes('/admin/v1/events?')
  page.on('request', (request) => isAnswer(request) && open.add(request))
  for (const event of ['requestfinished', 'requestfailed'] as const) page.on(event as 'requestfinished', (request) => open.delete(request))
  return open
}

async function drawn(page: Page): Promise<void> {
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))')
}
