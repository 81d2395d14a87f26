package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is one file of an archive. Its name is relative to the archive's folder.
type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// writeArchive writes the entries as a .tar.gz, or as a .zip if the file's name ends so. Nothing of
// the machine gets in: the entries are sorted, belong to user 0, and have one date.
func writeArchive(file, folder string, entries []entry, date time.Time) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return fmt.Errorf("%s: two entries are named %s", file, entries[i].name)
		}
	}
	var b bytes.Buffer
	write := writeTar
	if strings.HasSuffix(file, ".zip") {
		write = writeZip
	}
	if err := write(&b, folder, entries, date); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func writeTar(w io.Writer, folder string, entries []entry, date time.Time) error {
	squeeze, err := gzip.NewWriterLevel(w, gzip.BestCompression) // its header has no time and no name
	if err != nil {
		return err
	}
	t := tar.NewWriter(squeeze)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, e.name), Size: int64(len(e.content)), Mode: int64(e.mode.Perm()),
			ModTime: date, Format: tar.FormatPAX,
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(e.content); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return squeeze.Close()
}

func writeZip(w io.Writer, folder string, entries []entry, date time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: path.Join(folder, e.name), Method: zip.Deflate, Modified: date.UTC()}
		header.SetMode(e.mode.Perm())
		f, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.content); err != nil {
			return err
		}
	}
	return z.Close()
}

// readArchive returns what writeArchive has written. It is an error if an entry is outside of the
// archive's one folder, whose name it returns.
func readArchive(file string) (folder string, entries []entry, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	read := readTar
	if strings.HasSuffix(file, ".zip") {
		read = readZip
	}
	if entries, err = read(content); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, e := range entries {
		first, rest, ok := strings.Cut(e.name, "/")
		if !ok || !fs.ValidPath(e.name) || folder != "" && first != folder {
			return "", nil, fmt.Errorf("%s: %s is outside of the archive's folder", file, e.name)
		}
		folder, entries[i].name = first, rest
	}
	return folder, entries, nil
}

func readTar(content []byte) (entries []entry, err error) {
	squeezed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(squeezed)
	for {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{header.Name, header.FileInfo().Mode(), content})
	}
}

func readZip(content []byte) (entries []entry, err error) {
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		content, err := fs.ReadFile(z, f.Name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{f.Name, f.Mode(), content})
	}
	return entries, nil
}
