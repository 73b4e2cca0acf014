// A server in Go: the processor by cgo, from goroutines.
//
//	host FOLDER FILE    answers the PredictRequest in FILE from 8 goroutines, 50 times each, and writes one answer if all are equal
package main

/*
#include <stdlib.h>
#include "processor/processor_c.h"
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

const goroutines, calls = 8, 50

// A call's sentence, of a buffer that C writes.
type problem [500]C.char

func (p *problem) is(code C.int32_t) error {
	if code == C.CTRLAB_PROCESSOR_OK {
		return nil
	}
	return errors.New(C.GoString(&p[0]))
}

func initialize(folder string) (C.ctrlab_processor, error) {
	path := C.CString(folder)
	defer C.free(unsafe.Pointer(path))
	var processor C.ctrlab_processor
	var said problem
	return processor, said.is(C.ctrlab_processor_initialize(path, nil, &processor, &said[0], C.size_t(len(said))))
}

// `body` is C's memory: a struct that C reads must not point to Go's.
func process(processor C.ctrlab_processor, body unsafe.Pointer, size int) ([]byte, error) {
	request := C.ctrlab_processor_request{format: C.CTRLAB_PROCESSOR_PREDICT, data: (*C.char)(body), size: C.size_t(size), header: -1}
	request.struct_size = C.size_t(unsafe.Sizeof(request))
	var response C.ctrlab_processor_response
	response.struct_size = C.size_t(unsafe.Sizeof(response))
	defer C.ctrlab_processor_free(&response)
	var said problem
	if err := said.is(C.ctrlab_processor_process(processor, &request, &response, &said[0], C.size_t(len(said)))); err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(response.data), C.int(response.size)), nil
}

func serve(folder, file string) ([]byte, error) {
	if C.ctrlab_processor_version() != C.CTRLAB_PROCESSOR_VERSION {
		return nil, errors.New("the library is of another version than its header")
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	processor, err := initialize(folder)
	if err != nil {
		return nil, err
	}
	bodyOfC := C.CBytes(body)
	defer C.free(bodyOfC)
	var group sync.WaitGroup
	var answers [goroutines][]byte
	var errs [goroutines]error
	for g := 0; g < goroutines; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for call := 0; call < calls && errs[g] == nil; call++ {
				before := answers[g]
				answers[g], errs[g] = process(processor, bodyOfC, len(body))
				if call > 0 && !bytes.Equal(answers[g], before) {
					errs[g] = errors.New("two answers to one request differ")
				}
			}
		}(g)
	}
	group.Wait()
	for g := range answers {
		if errs[g] != nil {
			return nil, errs[g]
		}
		if !bytes.Equal(answers[g], answers[0]) {
			return nil, errors.New("two goroutines' answers to one request differ")
		}
	}
	var said problem
	return answers[0], said.is(C.ctrlab_processor_release(processor, &said[0], C.size_t(len(said))))
}

func main() {
	answer, err := serve(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Stdout.Write(answer)
}
