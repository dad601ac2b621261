import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { TOKEN } from './pictured-service.mjs'

const PICTURES = fileURLToPath(new URL('../../docs/pictures/', import.meta.url))
const DESK = { viewport: { width: 1200, height: 780 }, deviceScaleFactor: 1.25 }
const PHONE = { viewport: { width: 390, height: 780 }, deviceScaleFactor: 1.5, isMobile: true, hasTouch: true }
/** For each picture: its name, the view, the device, the colour scheme, and perhaps what to do there first. */
const SHOTS = [
  ['overview', 'overview', DESK, 'light'],
  ['overview-dark', 'overview', DESK, 'dark'],
  ['overview-phone', 'overview', PHONE, 'light'],
  ['events-phone', 'events', PHONE, 'dark'],
  ['policies', 'policies', DESK, 'light'],
  ['bundle', 'bundle', DESK, 'light'],
  ['callers', 'callers', DESK, 'light'],
  ['caller', 'overview', DESK, 'light', findCaller],
  ['keys', 'keys', DESK, 'light'],
  ['overrides', 'overrides', DESK, 'dark'],
  ['llm', 'llm', DESK, 'light'],
  ['explain', 'explain', DESK, 'light', explain],
  ['events', 'events', DESK, 'light'],
  ['changes', 'changes', DESK, 'light'],
]
/** Long enough for live figures and charts to be updated more than once. */
const LOOK_MS = 3500

export async function takePictures({ adminPort }, folder) {
  const fonts = join(folder, 'fonts.conf')
  writeFileSync(fonts, FONTS)
  const args = ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none']
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    args,
    env: { ...process.env, FONTCONFIG_FILE: fonts },
  })
  for (const [name, view, look, colorScheme, prepare] of SHOTS) {
    const context = await browser.newContext({ ...look, colorScheme })
    const page = await context.newPage()
    await page.goto(`http://127.0.0.1:${adminPort}/#/${view}`)
    await page.locator('input[type=password]').fill(TOKEN)
    await page.getByLabel('Your name').fill('ada')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.waitForTimeout(LOOK_MS)
    await prepare?.(page)
    await page.evaluate('scrollTo(0, 0)')
    await page.mouse.move(0, 0)
    await page.screenshot({ path: join(PICTURES, `console-${name}.png`) })
    await context.close()
  }
  await browser.close()
}

async function explain(page) {
  const uri = page.getByLabel('URI')
  if ((await uri.count()) === 0) return
  await uri.fill('/search?q=shoes')
  await page.getByLabel(/Header fields/).fill('x-api-key: globex')
  await page.getByRole('button', { name: 'Explain' }).click()
  await page.waitForTimeout(1000)
}

async function findCaller(page) {
  await page.keyboard.press('/')
  await page.keyboard.type('umbrella')
  await page.keyboard.press('Enter')
  await page.waitForTimeout(LOOK_MS)
}

/** Prefers Inter to DejaVu Sans, if it is installed. */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  ${['system-ui', 'sans-serif', 'sans', 'DejaVu Sans']
    .map(
      (family) => `<match target="pattern">
    <test name="family"><string>${family}</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit>
  </match>`,
    )
    .join('')}
</fontconfig>
`
