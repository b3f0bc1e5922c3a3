// Tables, each of which can be saved as CSV.

import {count, el, save} from './elements.js'

/// A number for a cell: CSV has the value, and people the text.
export const number = (value, text = count(value)) => el('data', {value}, text)

const nodes = (cell) => [cell].flat(Infinity).filter((one) => one !== null && one !== undefined)
const isNumber = (cell) => nodes(cell).some((one) =>
  one instanceof HTMLElement && (one.matches('data') || one.querySelector('data')))

/// - Parameters:
///   - rows: their cells, of texts and elements. The first one names the row.
///   - empty: what to say in place of a table without rows.
export function table(caption, heads, rows, empty = 'None.') {
  if (rows.length === 0) return [el('h2', null, caption), el('p', {class: 'soft'}, empty)]
  const side = (index) => rows.some((row) => isNumber(row[index])) ? {class: 'number'} : {}
  const button = el('button', {type: 'button', class: 'quiet small', 'aria-label': `Save as CSV: ${caption}`}, 'CSV')
  button.addEventListener('click', () => {
    const name = caption.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '')
    save([heads, ...rows].map((row) => `${row.map(field).join(',')}\r\n`).join(''), 'text/csv', `countersign-${name}.csv`)
  })
  return [el('table', null, el('caption', null, caption),
    el('thead', null, el('tr', null, heads.map((head, index) => el('th', {scope: 'col', ...side(index)}, head)))),
    el('tbody', null, rows.map(([name, ...cells]) => el('tr', null, el('th', {scope: 'row'}, name),
      cells.map((cell, index) => el('td', side(index + 1), cell)))))), button]
}

/// A field of RFC 4180. What a program for tables would take for a formula is marked as text: names come from outside.
function field(cell) {
  const text = nodes(cell).map((one) => {
    if (!(one instanceof HTMLElement)) return String(one)
    // Remarks beside a value or an ID.
    if (one.matches('wbr, .named, .soft:not(.id)')) return ''
    const values = one.matches('data, time') ? [one] : [...one.querySelectorAll('data, time')]
    return ` ${values.length > 0 ? values.map((value) => value.value || value.dateTime).join(' ') : one.textContent} `
  }).join('').replace(/\s+/g, ' ').trim()
  const safe = /^[=+\-@\t\r]/.test(text) && !isNumber(cell) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
