// Elements and words that every part of the page uses. Everything that is shown is text that was set as text.

export const byID = (id) => document.getElementById(id)

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue
    if (name === 'on') for (const [event, action] of Object.entries(value)) element.addEventListener(event, action)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child)
  return element
}
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children)
export const svg = (name, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children)
export const bdi = (text) => el('bdi', {class: 'id'}, text)

// MARK: Dates, in UTC as the service writes them; the reader's own time is in the tooltip

export const day = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', day: 'numeric', month: 'long', year: 'numeric'})
const clock = new Intl.DateTimeFormat('en-GB', {timeZone: 'UTC', hour: '2-digit', minute: '2-digit'})
export const date = (text) => `${day.format(new Date(text))}, ${clock.format(new Date(text))} UTC`
export const time = (text) => el('time', {datetime: text, title: `${new Date(text).toLocaleString()}, your time`}, date(text))

/// A moment in milliseconds.
export const at = (text) => Date.parse(text)

/// A word of the service's as people write it.
export const words = (text) => String(text).replaceAll('_', ' ')

const wholes = new Intl.NumberFormat('en-GB')
export const count = (number) => wholes.format(number)

/// `1 purchase`, `2 purchases`.
export const several = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`

export const title = (heading, ...buttons) => el('div', {class: 'title'}, heading, buttons)

/// Names and what they stand for, without those that have no value.
export const list = (rows) => el('dl', null, rows.filter(([, value]) => value)
  .map(([name, value]) => [el('dt', null, name), el('dd', null, value)]))

/// A table; cells after the first are numbers.
export const table = (caption, heads, rows) => el('table', null, el('caption', null, caption),
  el('thead', null, el('tr', null, heads.map((head) => el('th', {scope: 'col'}, head)))),
  el('tbody', null, rows.map(([name, ...cells]) =>
    el('tr', null, el('th', {scope: 'row'}, name), cells.map((cell) => el('td', null, cell))))))

/// Takes a text to the clipboard, where the browser lets a page do that.
export function copyButton(text, name, label = 'Copy') {
  if (!navigator.clipboard) return null
  const button = el('button', {type: 'button', class: 'quiet small', 'aria-label': name}, label)
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text)
      button.textContent = 'Copied'
    } catch { button.textContent = 'Not copied' }
    setTimeout(() => { button.textContent = label }, 2000)
  })
  return button
}
